// Listeners that come at any moment of a turn: the real thread, run, store and reattachment on the simulated clock.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { keepAlive } from "../../bus/frames/frames.ts";
import { Pasts } from "../../http/past/pasts.ts";
import { Reattachment } from "../../http/reattach.ts";
import { ThreadHubs } from "../../http/thread-hubs.ts";
import { readEvents } from "../../storage/tables/events.ts";
import { threadBySuffix } from "../../storage/tables/threads.ts";
import { ActorProcess, processSettings, tenantId } from "../support/actor-process.ts";
import { ScriptedModel, type ScriptedReply } from "../support/scripted-model.ts";
import { SimDisk } from "../support/sim-disk.ts";
import { Sim } from "../support/sim-env.ts";
import { call, inTurn, slow, slowManifests } from "../support/slow-turns.ts";
import { type Frame, FrameReader } from "../support/sse-frames.ts";
import { cleanup } from "../support/temp.ts";

const seeds = 300;
const turnMsMax = 120;

const replies: readonly ScriptedReply[] = [
  { text: ["Let ", "me ", "see."], calls: [call("a", "calculator", { expression: "1+1" }), call("b", "slow")] },
  { text: ["And", " then", ":"], calls: [call("c", "slow")] },
  { text: ["That ", "is ", "all ", "there ", "is."] },
];

/** What a client reads from a stream that takes everything at once. */
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

describe("a listener that comes at any moment of a turn", () => {
  const atEnd = cleanup();
  let disk: SimDisk;
  let settings: ReturnType<typeof processSettings>;
  before(async () => {
    settings = processSettings(atEnd, slowManifests);
    disk = await SimDisk.open(atEnd);
  });

  test("STREAM-032 STREAM-035 hears every event once and every word once, at 300 seeded moments", async () => {
    const seen = new Set<string>();
    for (let seed = 1; seed <= seeds; seed++) {
      const where = `seed ${seed}`;
      const sim = new Sim(seed);
      const env = sim.env();
      const store = disk.store(sim, env);
      const model = new ScriptedModel(env, inTurn(replies), () => sim.int(5));
      const suffix = `listened-${seed}`;
      const process = new ActorProcess({ env, store, settings, model, tools: [slow], bootId: `boot-${seed}` });
      const { bus } = process;
      const context = {
        env,
        bus,
        store,
        hubs: new ThreadHubs(bus),
        pasts: new Pasts(env, 2 ** 28),
        reattached: new Set(),
        settings,
      };
      const turn = process.submit({ manifest: seed % 2 === 0 ? "parallel" : "sequential", thread_suffix: suffix });
      await sim.advance(sim.int(turnMsMax));

      const stream = new ReadingStream();
      new Reattachment(
        context as never,
        { tenant_id: tenantId, sub: "", scopes: [], scheme: "none", issuer: "" },
        suffix,
        0,
        stream as never,
      );
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
    // Moments before, within and after what the model says were all among them.
    assert.deepEqual([...seen].sort(), ["after the turn", "between words", "words to come"]);
  });

  /** Text that a client holds when an answer is in the log is that answer, if it was there for its beginning or was told of it. */
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
