// Durable runs that change hands at a bad moment: while the former process still writes, and between the intent of a
// call and its result.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { defineTool } from "../../../actors/tools/tool.ts";
import { durableAddress, threadAddress } from "../../../bus/address.ts";
import { Type } from "../../../bus/type.ts";
import type { Store, TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { durableRowById } from "../../../storage/tables/durable-rows.ts";
import { readEvents } from "../../../storage/tables/events.ts";
import { runByKey } from "../../../storage/tables/runs.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { outcomeOf } from "../../support/outcome.ts";
import { type PlantedBug, takeoverBugs } from "../../support/planted-bugs.ts";
import { ScriptedModel, type ScriptedReply, type ShownMessage } from "../../support/scripted-model.ts";
import { SimDisk } from "../../support/sim-disk.ts";
import { Sim } from "../../support/sim-env.ts";
import { call } from "../../support/slow-turns.ts";
import { cleanup } from "../../support/temp.ts";

const usage = { input: 10, output: 2, cacheRead: 0, cacheWrite: 0 };

describe("durable runs that change hands", () => {
  const atEnd = cleanup();
  let settings: ReturnType<typeof processSettings>;
  before(() => {
    const agent = { tools: ["note", "look"], execution: { mode: "durable" } };
    settings = processSettings(atEnd, { agent }, { SVC_AUDIT_FLUSH_SECONDS: "3600" });
  });

  /** The events under this name; with a planted bug in the store of each process, others. */
  const guarded = (name: string, bug: keyof typeof takeoverBugs, hold: (bug?: PlantedBug) => Promise<void>) => {
    test(name, () => hold());
    test(`${name}: that is found when ${bug}`, () => assert.rejects(hold(takeoverBugs[bug]), assert.AssertionError));
  };

  async function world(bug?: PlantedBug) {
    const sim = new Sim(1);
    const disk = await SimDisk.open(atEnd);
    const made: string[] = [];
    /** A tool that never returns in the first process. */
    const tool = (name: string, effect: "read" | "once") =>
      defineTool({
        name,
        description: "Leaves a trace.",
        parameters: Type.Object({}),
        effect,
        risk: "writes",
        execute: () => {
          made.push(name);
          return made.length === 1 ? new Promise<never>(() => {}) : { text: "made" };
        },
      });
    const boot = (bootId: string, says: ScriptedReply, statement = "") => {
      const env = sim.env();
      const { store: held, reached, release } = heldStore(disk.store(sim, env), statement);
      const store = bug?.store?.(held, env) ?? held;
      const answer = (messages: readonly ShownMessage[]): ScriptedReply =>
        messages.at(-1)?.role === "user" ? says : { text: ["Done."], usage };
      const model = new ScriptedModel(env, answer, () => 10);
      const tools = [tool("note", "once"), tool("look", "read")];
      const process = new ActorProcess({ env, store, settings, model, tools, bootId });
      const recover = () => process.bus.ask(threadAddress(tenantId, "t"), "recover", {});
      return { env, process, model, reached, release, recover };
    };
    const look = async (runId: string, suffix: string) => {
      const tenant = disk.store(sim, sim.env()).tenant(tenantId);
      const durableRun = await sim.until(durableRowById(tenant, runId));
      const run = await sim.until(runByKey(tenant, durableRun?.run_key ?? 0));
      const head = await sim.until(threadBySuffix(tenant, suffix));
      const events = await sim.until(readEvents(tenant, head?.thread_key ?? 0, 0, 100));
      return { status: run?.status, error: run?.result?.error, next_seq: head?.next_seq, events };
    };
    return { sim, disk, made, boot, look };
  }

  test("DUR-008 a thread is not claimed at a position before a pending write", async () => {
    const { sim, boot, look } = await world();
    const says = { text: ["So."], calls: [call("c", "look")], usage };
    const first = boot("first", says, "tool_call");
    const turn = first.process.submit({ manifest: "agent", thread_suffix: "t", surface: "chat" });
    await sim.until(turn.accepted);
    await sim.until(first.reached);
    const second = boot("second", says, "run_suspend");
    const taking = outcomeOf(second.recover());
    await sim.until(second.reached);

    // The second has read the end of the log; now the batch of the first arrives, and then its own.
    first.release();
    await sim.advance(20);
    second.release();
    const taken = await sim.until(taking);
    first.env.end();
    await sim.until(second.recover());
    second.process.bus.tell(durableAddress("second"), "look", { all: true });
    await sim.advance(60_000);

    assert.deepEqual(taken, { refused: "conflict" });
    const { status, next_seq, events } = await look(turn.runId, "t");
    assert.equal(status, "completed");
    assert.deepEqual(
      events.map(({ seq, kind }) => [seq, kind]),
      ["message", "message", "tool_call", "tool_result", "message"].map((kind, seq) => [seq, kind]),
    );
    assert.equal(next_seq, events.length);
  });

  test("DUR-008 batches of a former process are refused while another one has the run", async () => {
    const { sim, boot, look, made } = await world();
    const says = { text: ["So."], calls: [call("c", "look")], usage };
    const first = boot("first", says);
    const turn = first.process.submit({ manifest: "agent", thread_suffix: "t", surface: "chat" });
    await sim.until(turn.accepted);
    const entries = [{ kind: "message", role: "assistant", content: "forged", extra: null }] as const;
    const append = ({ process }: typeof first, epoch: number | null) => {
      const asked = { run_id: turn.runId, epoch, entries, ops: [], kept: undefined };
      return sim.until(outcomeOf(process.bus.ask(threadAddress(tenantId, "t"), "append", asked)));
    };
    const claims = [];
    while (made.length === 0) await sim.advance(10);
    claims.push(await append(first, null), await append(first, 1));

    first.env.end();
    const second = boot("second", says, "tool_result");
    await sim.until(second.recover());
    second.process.bus.tell(durableAddress("second"), "look", { all: true });
    await sim.until(second.reached);
    claims.push(await append(second, null), await append(second, 2), await append(second, 3));
    second.release();
    await sim.advance(60_000);

    assert.deepEqual(claims, Array(5).fill({ refused: "actor_lost" }));
    const { status, events } = await look(turn.runId, "t");
    assert.equal(status, "completed");
    assert.ok(!events.some(({ content }) => content === "forged"));
  });

  guarded(
    "DUR-008 what a former process was still writing is not in the log of a run that was taken from it",
    "a batch of a process that has lost the thread is taken",
    async (bug) => {
      const { sim, boot, look } = await world(bug);
      const says = { text: ["So."], calls: [call("c", "look")], usage };
      const first = boot("first", says, "tool_call");
      const turn = first.process.submit({ manifest: "agent", thread_suffix: "t", surface: "chat" });
      await sim.until(turn.accepted);
      await sim.until(first.reached);
      const second = boot("second", says, "run_resume");
      await sim.until(second.recover());
      const before = await look(turn.runId, "t");

      first.release();
      await sim.advance(1_000);

      assert.deepEqual(await look(turn.runId, "t"), before);
    },
  );

  guarded(
    "DUR-008 of two processes that take up one run the later one is refused, and runs no tool",
    "a run is claimed without a guard",
    async (bug) => {
      const { sim, boot, look, made } = await world(bug);
      const says = { text: ["So."], calls: [call("c", "look")], usage };
      const first = boot("first", says);
      const turn = first.process.submit({ manifest: "agent", thread_suffix: "t", surface: "chat" });
      await sim.until(turn.accepted);
      while (made.length === 0) await sim.advance(10);
      first.env.end();
      const second = boot("second", says, "run_resume");
      await sim.until(second.recover());
      second.process.bus.tell(durableAddress("second"), "look", { all: true });
      await sim.until(second.reached);
      const third = boot("third", says);
      third.process.bus.tell(durableAddress("third"), "look", { all: true });
      while (third.model.requests.length === 0) await sim.advance(10);
      await sim.advance(1_000);

      second.release();
      await sim.advance(60_000);

      assert.deepEqual([second.model.requests.length, third.model.requests.length], [0, 1]);
      assert.equal((await look(turn.runId, "t")).status, "completed");
      assert.deepEqual(made, ["look", "look"]);
    },
  );

  test("DUR-008 a drained run waits for no store, and writes nothing once another has it", async () => {
    const { sim, disk, boot, look } = await world();
    const says = { text: Array.from({ length: 50 }, () => "w "), usage };
    const first = boot("first", says, "usage_insert");
    const turn = first.process.submit({ manifest: "agent", thread_suffix: "t", surface: "chat" });
    await sim.until(turn.accepted);
    await sim.advance(200);
    const { liveRuns } = first.process.deps;
    first.process.bus.tell(durableAddress("first"), "drain", {});

    for (const run of liveRuns) run.abort("shutdown");
    await sim.until(first.reached);
    const left = liveRuns.size;
    const second = boot("second", says);
    await sim.until(second.recover());
    second.process.bus.tell(durableAddress("second"), "look", { all: true });
    await sim.advance(100);
    first.release();
    await sim.advance(60_000);

    assert.equal(left, 0);
    assert.equal((await look(turn.runId, "t")).status, "completed");
    const rows = await disk.query("SELECT tokens_output FROM usage");
    assert.deepEqual(
      rows.map((row) => row.tokens_output),
      [usage.output],
    );
  });

  test("DUR-008 a call begun before its process and run ended is logged as possibly run", async () => {
    for (const [name, effect] of [
      ["note", "once"],
      ["look", "read"],
    ] as const) {
      const { sim, made, boot, look } = await world();
      const says = { calls: [call("c", name), call("d", name)], usage };
      const first = boot("first", says);
      const turn = first.process.submit({ manifest: "agent", thread_suffix: "t", surface: "chat" });
      await sim.until(turn.accepted);
      while (made.length === 0) await sim.advance(10);
      first.env.end();
      const second = boot("second", says);
      const { bus } = second.process;
      const tell = bus.tell.bind(bus);
      // No process resumes it before it is stopped.
      bus.tell = (to, type, body) => to.kind !== "durable" && tell(to, type, body);

      await sim.until(second.process.abort("t"));

      const { status, error, events } = await look(turn.runId, "t");
      assert.deepEqual([status, error], ["failed", "aborted"]);
      assert.deepEqual(made, [name]);
      assert.deepEqual(
        events.filter(({ kind }) => kind === "tool_result").map(({ content }) => content),
        [
          `[tool error/interrupted] outcome unknown: it may have run (${effect})`,
          "[tool error/interrupted] not run: the run was stopped",
        ],
      );
    }
  });
});

/** A store that holds its first batch with a statement, or an event, of this name until it is released. */
function heldStore(store: Store, name: string) {
  const reached = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  let isHeld = name === "";
  const holding = (scope: TenantStore): TenantStore =>
    new Proxy(scope, {
      get(target, property) {
        const value: unknown = Reflect.get(target, property, target);
        if (property !== "write") return typeof value === "function" ? value.bind(target) : value;
        return async (ops: readonly WriteOp[]) => {
          if (!isHeld && ops.some(({ statement, params }) => statement.name === name || params.includes(name))) {
            isHeld = true;
            reached.resolve();
            await released.promise;
          }
          return target.write(ops);
        };
      },
    });
  return {
    store: { ...store, tenant: (id: string) => holding(store.tenant(id)) },
    reached: reached.promise,
    release: () => released.resolve(),
  };
}
