// Calls of the OpenAI entry point that wait for a durable run, as their HTTP thread holds them. A call ends with the
// run or with its client, and then leaves no state. Actors, fan-out and store are real, in simulated time.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { threadAddress, topicOf } from "../../../bus/address.ts";
import { SvcError } from "../../../bus/errors.ts";
import { SlotSet } from "../../../bus/slot-map.ts";
import type { HttpContext, LiveTurn } from "../../../http/context.ts";
import type { EventStream } from "../../../http/exchange/sse.ts";
import { type Awaited, answerOfRun, streamOfRun } from "../../../http/streams/awaited-run.ts";
import { ThreadFanOut } from "../../../http/thread-fan-out.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { durableRowById } from "../../../storage/tables/durable-rows.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { emptyTurn } from "../../support/empty-turn.ts";
import { outcomeOf } from "../../support/outcome.ts";
import { ScriptedModel } from "../../support/scripted-model.ts";
import { SimDisk } from "../../support/sim-disk.ts";
import { Sim } from "../../support/sim-env.ts";
import { cleanup } from "../../support/temp.ts";

const address = threadAddress(tenantId, "t");
/** Interval at which a run is checked although no frame was heard. */
const lookMs = 5_000;
/** Delay of the model's only word, which falls between two checks. */
const modelMs = 7_000;

describe("calls that wait for a durable run", () => {
  const atEnd = cleanup();
  let settings: ReturnType<typeof processSettings>;
  before(() => {
    const agent = { execution: { mode: "durable" } };
    settings = processSettings(atEnd, { agent }, { SVC_AUDIT_FLUSH_SECONDS: "3600" });
  });

  /** A run with a pending model call, and the context with which an HTTP thread waits for it. */
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
    // The HTTP thread has its own environment, so that its timers differ from those of the actors.
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
    /** The number of store reads during an idle minute, and of the timers left after it. */
    const doneLater = async () => {
      reads = 0;
      await sim.advance(60_000);
      return { reads, planned: sim.planned(ownEnv) };
    };
    return { sim, context, awaited, isOver, left, doneLater, turns };
  }

  /** A client connection whose end the test controls. */
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

  test("DUR-002 end at the end of the run's topic, before the next check", async () => {
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

  test("DUR-002 are no longer a live turn once answered, and receive and read nothing more", async () => {
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

  test("DUR-002 end in the same way when streamed, and only once", async () => {
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
    // The longest possible wait is over, too.
    await sim.advance(awaited.wait_ms);
    assert.equal(heard.ends, 1);
  });

  for (const surface of ["openai", "openai_stream"] as const)
    test(`DUR-002 a disconnected client of ${surface} leaves no waiting call; its run continues`, async () => {
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

  test("DUR-002 are answered by a closing server, which keeps none", async () => {
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
