// Listeners that connect at every moment of a turn. Thread, run, store and reattachment are real, on a simulated clock.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { queryObjects } from "node:v8";
import type { Env } from "../../../bus/env.ts";
import { keepAlive } from "../../../bus/frames/frames.ts";
import { Ticket } from "../../../bus/queues/fair-queue.ts";
import { SlotSet } from "../../../bus/slot-map.ts";
import { BacklogReader, Backlogs } from "../../../http/backlog/backlogs.ts";
import { Reattachment } from "../../../http/streams/reattach.ts";
import { ThreadFanOut } from "../../../http/thread-fan-out.ts";
import type { Store } from "../../../storage/store/store.ts";
import { readEvents } from "../../../storage/tables/events.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { ScriptedModel, type ScriptedReply } from "../../support/scripted-model.ts";
import { SimDisk } from "../../support/sim-disk.ts";
import { Sim } from "../../support/sim-env.ts";
import { call, inTurn, slow, slowManifests } from "../../support/slow-turns.ts";
import { type Frame, FrameReader } from "../../support/sse-frames.ts";
import { cleanup } from "../../support/temp.ts";

const seeds = 300;
const turnMsMax = 120;

const replies: readonly ScriptedReply[] = [
  { text: ["Let ", "me ", "see."], calls: [call("a", "calculator", { expression: "1+1" }), call("b", "slow")] },
  { text: ["And", " then", ":"], calls: [call("c", "slow")] },
  { text: ["That ", "is ", "all ", "there ", "is."] },
];

/** The frames of a client that reads everything at once. */
class ReadingStream {
  readonly frames: Frame[] = [];
  readonly drained = true;
  readonly midFrame = false;
  closed = false;
  lastFrameAt = 0;
  readonly #reader = new FrameReader();

  write(text: string): void {
    this.frames.push(...this.#reader.push(text));
  }
  writePart(bytes: Uint8Array): void {
    this.write(Buffer.from(bytes).toString());
  }
  comment(text: string): void {
    assert.equal(text, keepAlive);
  }
  hold(): void {}
  whenDrained(work: () => void): void {
    work();
  }
  onClose(): void {}
}

describe("a listener that attaches at any moment of a turn", () => {
  const atEnd = cleanup();
  let disk: SimDisk;
  let settings: ReturnType<typeof processSettings>;
  before(async () => {
    settings = processSettings(atEnd, slowManifests);
    disk = await SimDisk.open(atEnd);
  });

  test("holds, while it stays, neither its place in the queue nor its backlog's maker", async () => {
    const sim = new Sim(1);
    const env = sim.env();
    const store = disk.store(sim, env);
    const model = new ScriptedModel(env, inTurn(replies), () => 0);
    const process = new ActorProcess({ env, store, settings, model, tools: [slow], bootId: "boot-held" });
    await sim.until(process.submit({ manifest: "sequential", thread_suffix: "held" }).ended);

    const streams = Array.from({ length: 20 }, (_, i) => {
      const stream = new ReadingStream();
      return { stream, reattachment: reattach(process, { env, store }, "held", i % 2 === 0 ? null : 1, stream) };
    });
    await sim.advance(1_000);

    for (const { stream } of streams) assert.ok(stream.frames.length > 0);
    assert.equal(queryObjects(Reattachment), streams.length);
    assert.equal(queryObjects(BacklogReader), 0);
    assert.equal(queryObjects(Ticket), 0);
    process.close();
  });

  test("STREAM-032 STREAM-035 gets every event and every word once, at 300 seeded moments", async () => {
    const seen = new Set<string>();
    for (let seed = 1; seed <= seeds; seed++) {
      const where = `seed ${seed}`;
      const sim = new Sim(seed);
      const env = sim.env();
      const store = disk.store(sim, env);
      const model = new ScriptedModel(env, inTurn(replies), () => sim.int(5));
      const suffix = `listened-${seed}`;
      const process = new ActorProcess({ env, store, settings, model, tools: [slow], bootId: `boot-${seed}` });
      const turn = process.submit({ manifest: seed % 2 === 0 ? "parallel" : "sequential", thread_suffix: suffix });
      await sim.advance(sim.int(turnMsMax));

      const stream = new ReadingStream();
      reattach(process, { env, store }, suffix, 0, stream);
      await sim.until(turn.ended);
      await sim.advance(1_000);

      const head = await sim.until(threadBySuffix(store.tenant(tenantId), suffix));
      const events = await sim.until(readEvents(store.tenant(tenantId), head?.thread_key ?? -1, 0, 1_000));
      const told = stream.frames.filter(({ name }) => name === "session_event").map(({ json }) => json.data);
      assert.deepEqual(
        told.map(({ seq }) => seq),
        events.map(({ seq }) => seq),
        where,
      );
      seen.add(wordsAgree(stream.frames, where));
      assert.deepEqual(process.crashes, [], where);
      process.close();
    }
    // The moments include before, during and after the model's text.
    assert.deepEqual([...seen].sort(), ["after the turn", "between words", "words to come"]);
  });

  /**
   * Asserts that a client's streamed text equals the logged answer if the client saw its start or got a snapshot of it.
   */
  function wordsAgree(frames: readonly Frame[], where: string): string {
    let held: string | null = null;
    let moment = "after the turn";
    for (const { name, json } of frames) {
      if (name === "session_progress" && json.data.replay) {
        held = "";
        moment = "words to come";
      } else if (name === "text_delta" && held !== null) {
        if (held === "" && json.text.includes(" ") && json.text.split(" ").length > 2) moment = "between words";
        held += json.text;
      } else if (name === "session_event" && json.data.role === "assistant" && held !== null) {
        assert.equal(held, json.data.content, where);
        held = "";
      }
    }
    if (held !== null) assert.equal(held, "", where);
    return moment;
  }
});

/** A client's stream of a conversation. */
function reattach(
  { bus }: ActorProcess,
  { env, store }: { readonly env: Env; readonly store: Store },
  suffix: string,
  cursor: number | null,
  stream: ReadingStream,
): Reattachment {
  const context = {
    env,
    bus,
    store,
    fanOut: new ThreadFanOut(bus),
    backlogs: new Backlogs(env, 2 ** 28),
    reattached: new SlotSet(),
    settings: { streamResumeIdleSeconds: 3_600 },
  };
  const principal = { tenant_id: tenantId, sub: "", scopes: [], scheme: "none", issuer: "" };
  return new Reattachment(context as never, principal as never, suffix, cursor, stream as never);
}
