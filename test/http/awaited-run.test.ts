// Who waits for a durable run on the OpenAI entry point, as its http thread holds them: told when the run is over, and forgotten
// then, or when the client is gone. The actors, the fan-out and the store are the real ones, in simulated time.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { threadAddress, topicOf } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { SlotSet } from "../../bus/slot-map.ts";
import { type Awaited, answerOfRun, streamOfRun } from "../../http/awaited-run.ts";
import type { HttpContext, LiveTurn } from "../../http/context.ts";
import type { EventStream } from "../../http/exchange/sse.ts";
import { ThreadFanOut } from "../../http/thread-fan-out.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { durableRowById } from "../../storage/tables/durable-rows.ts";
import { ActorProcess, processSettings, tenantId } from "../support/actor-process.ts";
import { emptyTurn } from "../support/empty-turn.ts";
import { outcomeOf } from "../support/outcome.ts";
import { ScriptedModel } from "../support/scripted-model.ts";
import { SimDisk } from "../support/sim-disk.ts";
import { Sim } from "../support/sim-env.ts";
import { cleanup } from "../support/temp.ts";

const address = threadAddress(tenantId, "t");
/** When a run is looked at again although nothing was heard of it. */
const lookMs = 5_000;
/** The model says its only word so long after it was asked, which is between two looks. */
const modelMs = 7_000;

describe("who waits for a durable run", () => {
  const atEnd = cleanup();
  let settings: ReturnType<typeof processSettings>;
  before(() => {
    const agent = { execution: { mode: "durable" } };
    settings = processSettings(atEnd, { agent }, { SVC_AUDIT_FLUSH_SECONDS: "3600" });
  });

  /** A run whose model is at work, and what an http thread needs to wait for it. */
  async function begun(surface: "openai" | "openai_stream") {
    const sim = new Sim(3);
    const disk = await SimDisk.open(atEnd);
    const env = sim.env();
    const store = disk.store(sim, env);
    const usage = { input: 10, output: 2, cacheRead: 0, cacheWrite: 0 };
    const model = new ScriptedModel(
      env,
      () => ({ text: ["Done."], usage }),
      () => modelMs,
    );
    const process = new ActorProcess({ env, store, settings, model, bootId: "one" });
    atEnd.after(() => process.close());
    const { bus } = process;
    const asked = process.submit({ manifest: "agent", thread_suffix: "t", surface });
    const accepted = await sim.until(asked.accepted);
    assert.ok(accepted.kind === "accepted");
    while (model.requests.length === 0) await sim.advance(10);
    let reads = 0;
    const counting = (tenant: TenantStore): TenantStore =>
      new Proxy(tenant, {
        get(target, property) {
          if (property === "read") reads++;
          const value: unknown = Reflect.get(target, property, target);
          return typeof value === "function" ? value.bind(target) : value;
        },
      });
    const turns = new SlotSet<LiveTurn>();
    // The http thread's own, so that what it has planned can be told from what the actors have.
    const ownEnv = sim.env();
    const context = {
      ...{ env: ownEnv, settings, bus, turns, fanOut: new ThreadFanOut(bus), log: process.deps.log },
      store: { tenant: (id: string) => counting(store.tenant(id)) },
    } as unknown as HttpContext;
    const principal = { tenant_id: tenantId, sub: "alice", scopes: [], scheme: "none", issuer: "" } as const;
    const turn = { ...emptyTurn, principal, surface, run_id: asked.runId } as unknown as Awaited["turn"];
    const awaited: Awaited = { turn, run: accepted.run, replayed: false, wait_ms: 600_000 };
    const isOver = async () => (await sim.until(durableRowById(store.tenant(tenantId), asked.runId)))?.ended_at != null;
    const left = () => ({ turns: turns.size, listens: bus.hasSubscribers(topicOf(address)) });
    /** How often the store is read in a minute in which nothing is to be done, and what is still planned then. */
    const doneLater = async () => {
      reads = 0;
      await sim.advance(60_000);
      return { reads, planned: sim.planned(ownEnv) };
    };
    return { sim, context, awaited, isOver, left, doneLater, turns };
  }

  /** The end of a client's connection. */
  function connection() {
    const ends: (() => void)[] = [];
    const go = (): void => {
      for (const end of ends.splice(0)) end();
    };
    return { onGone: (work: () => void) => void ends.push(work), go };
  }

  /** A client that reads an event stream. */
  function reader() {
    const { onGone, go } = connection();
    const heard = { text: "", ends: 0 };
    const stream = {
      drained: true,
      write(text: string) {
        heard.text += text;
      },
      end(text: string) {
        heard.text += text;
        heard.ends++;
        go();
      },
      onClose: onGone,
    } as unknown as EventStream;
    return { stream, heard, go };
  }

  const nobody = { turns: 0, listens: false };
  const nothing = { reads: 0, planned: 0 };

  test("DUR-002 the end is told when the conversation says it, not when the run is looked at again", async () => {
    const { sim, context, awaited, isOver } = await begun("openai");
    let answered = false;
    const answer = answerOfRun(context, awaited, connection().onGone).then(() => {
      answered = true;
    });
    while (!(await isOver())) await sim.advance(20);

    await sim.advance(lookMs / 10);

    assert.equal(answered, true);
    await answer;
  });

  test("DUR-002 who was answered is a turn under way no longer, hears nothing and reads nothing", async () => {
    const { sim, context, awaited, left, doneLater } = await begun("openai");
    const answer = sim.until(answerOfRun(context, awaited, connection().onGone), 60_000);
    await sim.advance(100);
    assert.deepEqual(left(), { turns: 1, listens: true });

    const reply = await answer;

    assert.ok(reply.kind === "json" && reply.status === 200 && reply.body.includes("Done."), JSON.stringify(reply));
    await sim.advance(10);
    assert.deepEqual(left(), nobody);
    assert.deepEqual(await doneLater(), nothing);
  });

  test("DUR-002 so is who was told by a stream, which ends once", async () => {
    const { sim, context, awaited, left, doneLater } = await begun("openai_stream");
    const reply = await sim.until(streamOfRun(context, awaited));
    assert.ok(reply.kind === "stream");
    const { stream, heard } = reader();
    reply.open(stream);
    await sim.advance(100);
    assert.deepEqual(left(), { turns: 1, listens: true });

    await sim.advance(2 * modelMs);

    assert.match(heard.text, /Done\..*data: \[DONE\]\n\n$/s);
    assert.deepEqual(left(), nobody);
    assert.deepEqual(await doneLater(), nothing);
    // The time that it might have waited for is over, too.
    await sim.advance(awaited.wait_ms);
    assert.equal(heard.ends, 1);
  });

  for (const surface of ["openai", "openai_stream"] as const)
    test(`DUR-002 a client of ${surface} that goes away leaves nobody who waits; its run goes on`, async () => {
      const { sim, context, awaited, isOver, left, doneLater } = await begun(surface);
      const { stream, heard, go } = reader();
      if (surface === "openai") {
        const gone = connection();
        void answerOfRun(context, awaited, gone.onGone);
        await sim.advance(100);
        gone.go();
      } else {
        const reply = await sim.until(streamOfRun(context, awaited));
        assert.ok(reply.kind === "stream");
        reply.open(stream);
        await sim.advance(100);
        go();
      }
      await sim.advance(10);

      assert.deepEqual(left(), nobody);
      assert.deepEqual(await doneLater(), nothing);
      assert.equal(await isOver(), true);
      assert.doesNotMatch(heard.text, /Done/);
    });

  test("DUR-002 a server that ends tells who waits, and nobody waits then", async () => {
    const { sim, context, awaited, left, turns } = await begun("openai");
    const answer = outcomeOf(answerOfRun(context, awaited, connection().onGone));
    await sim.advance(100);

    for (const turn of [...turns]) turn.fail(new SvcError("shutting_down"));

    const outcome = await sim.until(answer);
    assert.ok("answer" in outcome && outcome.answer.kind === "json", JSON.stringify(outcome));
    const { status, headers } = outcome.answer;
    assert.deepEqual([status, headers], [503, { "x-should-retry": "false" }]);
    await sim.advance(10);
    assert.deepEqual(left(), nobody);
  });
});
