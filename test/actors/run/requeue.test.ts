// A run that continues a dead one, on both engines. It repeats no logged step, and its log is deleted with the last of
// these runs.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { lostMax } from "../../../actors/log/lost-steps.ts";
import { defineTool } from "../../../actors/tools/tool.ts";
import { durableAddress, runAddress, threadAddress } from "../../../bus/address.ts";
import { systemEnv } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import { Type } from "../../../bus/type.ts";
import type { Store } from "../../../storage/store/store.ts";
import { deadDurables, durablePage } from "../../../storage/tables/durable-lists.ts";
import {
  acceptDurableOp,
  type DurableRunRow,
  durableRowById,
  endDurableOp,
  loseDurableOp,
} from "../../../storage/tables/durable-rows.ts";
import { endedAlone } from "../../../storage/tables/durable-sweeps.ts";
import { type LogEvent, readEvents } from "../../../storage/tables/events.ts";
import { type RunRow, runBegun, runByKey } from "../../../storage/tables/runs.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { eventually } from "../../support/eventually.ts";
import { newRun } from "../../support/rows.ts";
import { ScriptedModel, type ScriptedReply, type ShownMessage } from "../../support/scripted-model.ts";
import { stoppingStore } from "../../support/stopping-store.ts";
import { gateDialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const env = systemEnv();
const call = (id: string, name: string) => ({ id, name, arguments: JSON.stringify({ id }) });
const usage = { input: 10, output: 2, cacheRead: 0, cacheWrite: 0 };
const replies: readonly ScriptedReply[] = [
  { usage, calls: [call("a", "note")] },
  { usage, calls: [call("b", "look"), call("c", "note")] },
  { text: ["Done."], usage },
];
const answer = (messages: readonly ShownMessage[]): ScriptedReply =>
  replies[messages.filter(({ role }) => role === "assistant").length] ?? { text: ["Next."] };

for (const dialect of gateDialects) {
  describe(`a requeued run on ${dialect}`, () => {
    const atEnd = cleanup();
    const effects: string[] = [];
    /** The keys of the tool calls, by call. */
    const keys = new Map<string, Set<string>>();
    let store: Store;
    let settings: ReturnType<typeof processSettings>;

    const tool = (name: string, effect: "read" | "once") =>
      defineTool({
        name,
        description: "Leaves a trace.",
        parameters: Type.Object({ id: Type.String() }, { additionalProperties: false }),
        effect,
        risk: effect === "read" ? "reads" : "writes",
        execute({ id }, { threadSuffix, key }) {
          effects.push(`${threadSuffix} ${id}`);
          keys.set(`${threadSuffix} ${id}`, (keys.get(`${threadSuffix} ${id}`) ?? new Set()).add(key));
          return { text: `${name} ${id}` };
        },
      });
    const tools = [tool("note", "once"), tool("look", "read")];

    before(async () => {
      const execution = { mode: "durable", resume_token_ttl_seconds: 30 };
      const names = tools.map(({ name }) => name);
      settings = processSettings(
        atEnd,
        {
          agent: { tools: names, execution },
          bounded: { tools: names, execution, limits: { max_tool_calls: 2 } },
        },
        { SVC_AUDIT_FLUSH_SECONDS: "3600" },
      );
      ({ store } = await testStore(dialect, atEnd));
    });

    function start(of: Store, bootId: string) {
      const model = new ScriptedModel(env, answer, () => 0);
      const process = new ActorProcess({ env, store: of, settings, model, tools, bootId });
      atEnd.after(() => process.close());
      return { process, model };
    }
    async function found(runId: string): Promise<{ durableRun: DurableRunRow; run: RunRow }> {
      const tenant = store.tenant(tenantId);
      const durableRun = await eventually(`the end of ${runId}`, async () => {
        const row = await durableRowById(tenant, runId);
        return row?.ended_at != null ? row : undefined;
      });
      return { durableRun, run: (await runByKey(tenant, durableRun.run_key)) as RunRow };
    }
    async function logOf(suffix: string): Promise<LogEvent[]> {
      const tenant = store.tenant(tenantId);
      const head = await threadBySuffix(tenant, suffix);
      return head ? readEvents(tenant, head.thread_key, 0, 1_000) : [];
    }

    /** A run that has written so many batches, and was then lost as often as allowed. */
    async function deadAfter(batches: number, manifest: string, suffix: string | null): Promise<string> {
      const dying = stoppingStore(store, batches, true);
      const asked = { manifest, thread_suffix: suffix };
      const bootId = `first-${manifest}-${suffix}`;
      const { runId, accepted } = start(dying, bootId).process.submit(asked);
      assert.equal((await accepted).kind, "accepted");
      await dying.stopped;
      const tenant = store.tenant(tenantId);
      const { process } = start(store, `second-${manifest}-${suffix}`);
      const place = suffix ?? `fiber:${runId}`;
      await tenant.write(Array.from({ length: lostMax }, () => loseDurableOp(tenant, runId, 0)));
      await process.bus.ask(threadAddress(tenantId, place), "recover", {});
      process.bus.tell(durableAddress(`second-${manifest}-${suffix}`), "look", { all: true });
      assert.equal((await found(runId)).run.status, "dead");
      process.close();
      return runId;
    }

    function requeue(process: ActorProcess, dead: string, place: string, id: string) {
      return process.bus.ask(runAddress(tenantId, place, id), "requeue", { of: dead });
    }

    test("DUR-012 a step that was lost repeatedly waits before it resumes", async () => {
      const dying = stoppingStore(store, 4, true);
      const { runId } = start(dying, "first-resting").process.submit({ manifest: "agent", thread_suffix: "resting" });
      await dying.stopped;
      const tenant = store.tenant(tenantId);
      const { process, model } = start(store, "second-resting");
      await tenant.write(Array.from({ length: 6 }, () => loseDurableOp(tenant, runId, 0)));

      await process.bus.ask(threadAddress(tenantId, "resting"), "recover", {});

      const { wake_at, updated_at, lost } = (await durableRowById(tenant, runId)) as DurableRunRow;
      assert.deepEqual([lost, (wake_at ?? 0) - updated_at], [7, 8_000]);
      await eventually("an idle host", async () => process.host.busyCount() === 0);
      assert.equal((await durableRowById(tenant, runId))?.wake_at, wake_at, "nobody takes it up before");
      assert.equal(model.requests.length, 0);
      process.close();
    });

    test("DUR-012 a requeued run continues after the dead one's last logged step", async () => {
      // The last batch has the intent of `look`.
      const dead = await deadAfter(4, "agent", "whole");
      const before = await logOf("whole");
      assert.deepEqual(
        before.filter(({ kind }) => kind === "tool_call").map(({ extra }) => extra?.tool_call_id),
        ["a", "b"],
      );
      const { process, model } = start(store, "third-whole");
      const id = env.id();

      const accepted = await requeue(process, dead, "whole", id);
      const again = await requeue(process, dead, "whole", id);
      const { run, durableRun } = await found(id);

      assert.deepEqual([accepted.resume_token, accepted.thread_id], [id, `${tenantId}:whole`]);
      assert.equal(again.resume_token, id, "asked again with its name it is the same");
      assert.deepEqual([run.status, durableRun.final, durableRun.lost], ["completed", "Done.", 0]);
      assert.equal(model.requests.length, 1, "two answers are in the log");
      const events = await logOf("whole");
      const results = events.filter(({ kind }) => kind === "tool_result").map(({ content }) => content);
      assert.deepEqual(
        results.map((text) => text.includes("unknown")),
        [false, false, false],
      );
      assert.deepEqual(effects.filter((effect) => effect.startsWith("whole")).sort(), [
        "whole a",
        "whole b",
        "whole b",
        "whole c",
      ]);
      const intents = events.filter(({ kind }) => kind === "tool_call").map(({ extra }) => extra?.metadata?.key);
      assert.deepEqual(
        intents,
        ["a", "b", "c"].map((name) => `${dead}.${name}`),
        "keys are those of the first run",
      );
      const given = ["a", "b", "c"].map((name) => [...(keys.get(`whole ${name}`) ?? [])]);
      assert.deepEqual(
        given.map(({ length }) => length),
        [1, 1, 1],
        "a call that is made again has its key again",
      );
      assert.equal(new Set(given.flat()).size, 3);
      assert.ok((run.first_seq ?? 0) > (before.at(-1)?.seq ?? 0), "its own events are behind those of the dead one");
      const left = await found(dead);
      assert.deepEqual([left.run.status, left.durableRun.requeued_as], ["dead", id]);
      assert.equal(run.asked.requeued?.run_id, dead);
    });

    test("DUR-012 limits count a dead run's usage, the reply the new run's only", async () => {
      const dead = await deadAfter(4, "bounded", "limits");
      const { process } = start(store, "third-limits");
      const id = env.id();

      await requeue(process, dead, "limits", id);
      const { run } = await found(id);

      assert.equal(run.spent?.tool_calls, 2);
      assert.ok(!effects.includes("limits c"), "a third call would be one too many");
      const whole = run.result?.usage;
      assert.ok(whole && whole.input < 3 * usage.input, JSON.stringify(whole));
    });

    test("DUR-012 a run that dies and is requeued twice starts at the first's beginning", async () => {
      const dead = await deadAfter(4, "agent", "twice");
      const dying = stoppingStore(store, 2, true);
      const second = env.id();
      const { process } = start(dying, "third-twice");
      await requeue(process, dead, "twice", second);
      await dying.stopped;
      const tenant = store.tenant(tenantId);
      await tenant.write(Array.from({ length: lostMax }, () => loseDurableOp(tenant, second, 0)));
      const { process: next, model } = start(store, "fourth-twice");
      await next.bus.ask(threadAddress(tenantId, "twice"), "recover", {});
      next.bus.tell(durableAddress("fourth-twice"), "look", { all: true });
      assert.equal((await found(second)).run.status, "dead");
      const third = env.id();

      await requeue(next, second, "twice", third);
      const { run } = await found(third);

      assert.equal(run.status, "completed");
      assert.deepEqual([run.asked.requeued?.run_id, run.asked.requeued?.first_run_id], [second, dead]);
      assert.equal(model.requests.length, 1);
      const keys = (await logOf("twice")).flatMap(({ kind, extra }) =>
        kind === "tool_call" ? [extra?.metadata?.key] : [],
      );
      assert.deepEqual(
        keys,
        ["a", "b", "c"].map((name) => `${dead}.${name}`),
      );
    });

    test("DUR-006 a dead run's log without a thread lasts as long as its successor", async () => {
      const tenant = store.tenant(tenantId);
      const dead = await deadAfter(4, "agent", null);
      const place = `fiber:${dead}`;
      const { process } = start(store, "third-alone");
      const id = env.id();
      const until = Date.now() + 3_600_000;

      const accepted = await requeue(process, dead, place, id);
      await found(id);
      const both = (await endedAlone(store.system, until, null, 100)).filter(({ suffix }) => suffix === place);
      const { expires_at } = (await durableRowById(tenant, id)) as DurableRunRow;
      const deadAt = (await durableRowById(tenant, dead))?.ended_at ?? 0;
      const older = (await endedAlone(store.system, deadAt, null, 100)).filter(({ suffix }) => suffix === place);
      await tenant.write([endDurableOp(tenant, id, { final: null, error: null, expires_at })]);

      assert.equal(accepted.thread_id, null);
      assert.deepEqual(older, [], "the newer one's time is not over");
      assert.deepEqual(both.map(({ run_id }) => run_id).sort(), [dead, id].sort(), "with the last one");
      assert.equal((await logOf(place)).filter(({ role }) => role === "user").length, 1);
    });

    test("DUR-006 dead runs without a successor are listed by age", async () => {
      const tenant = store.tenant(tenantId);
      const all = { manifest: null, until: Number.MAX_SAFE_INTEGER, cursor: null };
      const [left, other] = [await deadAfter(4, "agent", "left-1"), await deadAfter(4, "bounded", "left-2")];

      const names = async (asked: object, of = tenant, limit = 100) =>
        (await deadDurables(of, { ...all, ...asked }, limit)).map(({ run_id }) => run_id);
      const [first] = await deadDurables(tenant, all, 1);
      const page = await durablePage(tenant, "dead", null, 2);
      const next = await durablePage(tenant, "dead", page.next_cursor, 100);

      assert.deepEqual(await names({}), [left, other]);
      assert.deepEqual(await names({ manifest: "bounded" }), [other]);
      assert.deepEqual(await names({ cursor: first?.cursor }), [other]);
      const { ended_at } = (await durableRowById(tenant, left)) as DurableRunRow;
      assert.deepEqual(await names({ until: ended_at }), [left]);
      assert.deepEqual(await names({}, store.tenant("another")), []);
      assert.deepEqual(
        page.rows.map(({ run_id }) => run_id),
        [other, left],
      );
      assert.ok(next.rows.length >= 4 && next.rows.every(({ status }) => status === "dead"));
    });

    test("DUR-006 a run that cannot continue a dead one frees the thread", async () => {
      const dead = await deadAfter(4, "agent", "left");
      const { process } = start(store, "third-left");
      await process.submit({ manifest: "agent", thread_suffix: "left" }).accepted;
      await eventually("an idle host", async () => process.host.busyCount() === 0);

      await assert.rejects(requeue(process, dead, "left", env.id()), { code: "conflict" });

      const erased = await process.bus.ask(threadAddress(tenantId, "left"), "erase", {});
      assert.deepEqual(erased, { deleted: true });
      process.close();
    });

    test("DUR-002 a tenant with 10,000 queued durable runs can accept or requeue no other", async () => {
      const tenant = store.tenant(tenantId);
      const dead = await deadAfter(4, "agent", "full");
      const { process } = start(store, "third-full");
      // None of them is due.
      const later = Date.now() + 86_400_000;
      const queued = (n: number) =>
        acceptDurableOp(
          tenant,
          runBegun(newRun(`q${n}`), { thread_key: 1e6 + n, epoch: 0, first_seq: 0 }),
          `q${n}`,
          later,
        );
      for (let from = 0; from < 10_000; from += 1_000)
        await tenant.write(Array.from({ length: 1_000 }, (_, n) => queued(from + n)));

      const refused = (error: unknown) => SvcError.from(error).code === "run_queue_full";
      await assert.rejects(requeue(process, dead, "full", env.id()), refused);
      // A run that gets a slot at once does not queue: here none is free.
      const full = start(store, "full").process;
      full.bus.tell(durableAddress("full"), "drain", {});
      await assert.rejects(full.submit({ manifest: "agent", thread_suffix: null, surface: "chat" }).accepted, refused);
      assert.equal((await durableRowById(tenant, dead))?.requeued_as, null);
      await tenant.write([endDurableOp(tenant, "q0", { final: null, error: null, expires_at: later })]);
      const id = env.id();
      await requeue(process, dead, "full", id);
      assert.equal((await found(id)).run.status, "completed");
    });
  });
}
