// Streams of durable runs that listen before the run is accepted. Thread, run, store, fan-out and stream are real, on a
// simulated clock.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { threadAddress, topicOf } from "../../bus/address.ts";
import { SlotSet } from "../../bus/slot-map.ts";
import { Backlogs } from "../../http/backlog/backlogs.ts";
import type { HttpContext } from "../../http/context.ts";
import { DurableAgents, EarlyListener } from "../../http/early-listener.ts";
import type { EventStream } from "../../http/exchange/sse.ts";
import type { RouteRequest } from "../../http/route.ts";
import { streamTurn, type TurnFields } from "../../http/streams/turns.ts";
import { ThreadFanOut, type ThreadListener } from "../../http/thread-fan-out.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { ActorProcess, processSettings, tenantId } from "../support/actor-process.ts";
import { emptyTurn } from "../support/empty-turn.ts";
import { outcomeOf } from "../support/outcome.ts";
import { ScriptedModel } from "../support/scripted-model.ts";
import { SimDisk } from "../support/sim-disk.ts";
import { Sim } from "../support/sim-env.ts";
import { cleanup } from "../support/temp.ts";

const durable = { execution: { mode: "durable" } };
const modelMs = 100;

/** The same frames as live ones, without the mark of a replay. */
const live = (frames: readonly string[]) => frames.map((each) => each.replace(',"replay":true', ""));

describe("the stream of a durable run that was listened to before it was accepted", () => {
  const atEnd = cleanup();
  let settings: ReturnType<typeof processSettings>;
  before(() => {
    settings = processSettings(atEnd, { agent: durable, plain: {} }, { SVC_AUDIT_FLUSH_SECONDS: "3600" });
  });

  /** A process with clients. */
  async function start() {
    const sim = new Sim(5);
    const disk = await SimDisk.open(atEnd);
    const env = sim.env();
    const store = disk.store(sim, env);
    const model = new ScriptedModel(
      env,
      () => ({ text: ["Done ", "it."] }),
      () => modelMs,
    );
    const process = new ActorProcess({ env, store, settings, model, bootId: "one" });
    atEnd.after(() => process.close());
    const { bus } = process;
    let reads = 0;
    const counting = (tenant: TenantStore): TenantStore => ({
      ...tenant,
      read: (statement, ...params) => {
        reads++;
        return tenant.read(statement, ...params);
      },
    });
    const context = {
      ...{
        env,
        settings,
        bus,
        turns: new SlotSet(),
        fanOut: new ThreadFanOut(bus),
        durableAgents: new DurableAgents(),
        closing: () => false,
      },
      ...{ backlogs: new Backlogs(env, 2 ** 20), reattached: new Set(), log: process.deps.log },
      store: { tenant: (id: string) => counting(store.tenant(id)) },
    } as unknown as HttpContext;

    /** Opens a stream and reads it to its end. */
    function ask(manifest: string, thread_suffix: string | null) {
      let isGone = false;
      let leave: () => void = () => {};
      const heard: { text: string; ended: boolean; failure?: unknown } = { text: "", ended: false };
      const exchange = {
        head: { headers: {} },
        onAborted(work: () => void) {
          leave = work;
        },
      };
      const principal = { tenant_id: tenantId, sub: "alice", scopes: [], scheme: "none", issuer: "" };
      const request = { exchange, principal, requestId: "q", rawBody: Buffer.alloc(0), lease: null };
      const fields: TurnFields = {
        ...emptyTurn,
        ...{ surface: "chat_stream", manifest, thread_suffix, messages: [{ role: "user", content: "hi" }] },
      };
      const stream = {
        ...{ drained: true, midFrame: false, closed: false, lastFrameAt: 0 },
        write(text: string) {
          heard.text += text;
        },
        writePart(bytes: Uint8Array) {
          heard.text += Buffer.from(bytes).toString();
        },
        comment() {},
        onShutdown() {},
        hold() {},
        whenDrained: (work: () => void) => work(),
        end(text: string) {
          heard.text += text;
          heard.ended = true;
          onClose();
        },
        onClose(work: () => void) {
          onClose = work;
        },
      };
      let onClose = (): void => {};
      const reply = streamTurn(request as unknown as RouteRequest<unknown, unknown, unknown>, fields, context);
      const opened = reply.then((it) => {
        assert.ok(it.kind === "stream");
        if (!isGone) it.open(stream as unknown as EventStream);
      });
      opened.catch((error) => {
        heard.failure = error;
      });
      const go = (): void => {
        isGone = true;
        leave();
      };
      return { heard, opened, go };
    }

    /**
     * The frames that a client has read of a turn, without ids and times, and the HTTP thread's store reads for them.
     */
    async function talk(manifest: string, thread_suffix: string | null) {
      reads = 0;
      const { heard } = ask(manifest, thread_suffix);
      while (!heard.ended && heard.failure === undefined) await sim.advance(10);
      assert.equal(heard.failure, undefined);
      const lines = heard.text
        .replaceAll(/[0-9a-f]{32}/g, "T")
        .replaceAll(/"evt[^"]*"/g, '"E"')
        .replaceAll(/,"updated_at":\d+/g, "")
        .replaceAll(/\d{4}-\d\d-\d\dT[^"]*Z/g, "D")
        .replaceAll(/"(acme:)?t\d+(:\d+)?"/g, '"S"')
        .replaceAll(": keep-alive\n\n", "");
      return { frames: lines.split("\n\n"), reads };
    }
    const listens = (suffix: string) => bus.hasSubscribers(topicOf(threadAddress(tenantId, suffix)));
    return { sim, context, ask, talk, listens };
  }

  test("DUR-014 equals the stream of the agent's first run and reads no events from the store", async () => {
    const { talk, listens } = await start();

    const first = await talk("agent", "t1");
    const second = await talk("agent", "t2");

    assert.deepEqual(second.frames, live(first.frames));
    assert.ok(first.frames.some((each) => each.includes('"event":"final"')));
    assert.ok(first.reads > 3, `${first.reads}`);
    assert.equal(second.reads, 1, "its record, at its end");
    assert.equal(listens("t2"), false);
  });

  test("DUR-014 works without a thread, and starts at the current position of an existing one", async () => {
    const { talk } = await start();
    const [first, second] = [await talk("agent", null), await talk("agent", null)];
    await talk("agent", "t1");
    const third = await talk("agent", "t1");

    assert.deepEqual(second.frames, live(first.frames));
    assert.deepEqual([second.reads, third.reads], [1, 1]);
    const ids = third.frames.flatMap((each) => /^id: (\d+)/.exec(each)?.[1] ?? []);
    assert.deepEqual(ids, ["3", "4"]);
  });

  test("DUR-014 a formerly durable agent streams like any other, and its listener ends", async () => {
    const { context, talk, listens } = await start();
    const usual = await talk("plain", "t1");
    context.durableAgents.note(tenantId, "plain", true);

    const listened = await talk("plain", "t2");

    assert.deepEqual(listened.frames, usual.frames);
    assert.equal(context.durableAgents.has(tenantId, "plain"), false);
    assert.equal(listens("t2"), false);
  });

  test("DUR-014 continues after the loss of its thread without repeating a frame", async () => {
    const { sim, context, ask, talk } = await start();
    await talk("agent", "t1");
    const listeners: ThreadListener[] = [];
    const join = context.fanOut.join.bind(context.fanOut);
    context.fanOut.join = (address, listener) => {
      listeners.push(listener);
      join(address, listener);
    };
    const { heard, opened } = ask("agent", "t2");
    await sim.until(opened);

    listeners.at(-1)?.lost();
    while (!heard.ended) await sim.advance(10);

    const ids = [...heard.text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => id);
    assert.deepEqual(ids, ["1", "2"]);
    assert.equal(heard.text.match(/"event":"run_accepted"/g)?.length, 1);
    assert.match(heard.text, /"event":"final"/);
  });

  test("SESS-009 a refused or early disconnected client stops listening; others continue", async () => {
    const { sim, talk, ask, listens } = await start();
    await talk("agent", "t1");
    const begun = ask("agent", "t2");
    await sim.until(begun.opened);

    const refused = await sim.until(outcomeOf(ask("agent", "t2").opened));
    const gone = ask("agent", "t3");
    gone.go();
    await sim.until(gone.opened);

    assert.deepEqual(refused, { refused: "run_in_progress" });
    assert.deepEqual([listens("t3"), listens("t2")], [false, true]);
    while (!begun.heard.ended) await sim.advance(10);
    assert.match(begun.heard.text, /"event":"final"/);
    assert.equal(listens("t2"), false);
  });

  test("a thousand agents are remembered, and the oldest is evicted", () => {
    const agents = new DurableAgents();
    for (let at = 0; at <= 1_000; at++) agents.note(tenantId, `agent-${at}`, true);
    agents.note(tenantId, "agent-7", false);

    const known = ["agent-0", "agent-1", "agent-7", "agent-1000"].map((name) => agents.has(tenantId, name));
    assert.deepEqual([known, agents.has("another", "agent-1")], [[false, true, false, true], false]);
  });

  test("DUR-014 reads the whole run after the loss of its node or of a frame", () => {
    const fanOut = { join() {}, leave() {} } as unknown as ThreadFanOut;
    const listener = () => new EarlyListener(fanOut, threadAddress(tenantId, "t1"));
    const frames = (...ids: number[]) => ids.map((id) => `id: ${id}\ndata: {"seq":"id: 9\\n"}\n\n`).join("");

    const whole = listener();
    whole.frames(frames(7), 7);
    whole.frames(`data: {}\n\n${frames(8)}`, 8);
    whole.frames("data: {}\n\n", null);
    const lost = listener();
    lost.frames(frames(8), 8);
    lost.lost();
    const rewound = listener();
    rewound.frames(frames(8), 8);
    rewound.rewound();
    const long = listener();
    long.frames(frames(8) + "x".repeat(64 * 1024), 8);

    assert.deepEqual(whole.from(7), { text: `${frames(8)}data: {}\n\n`, cursor: 8 });
    assert.deepEqual(whole.from(6)?.text.length, frames(7, 8).length + 2 * "data: {}\n\n".length);
    assert.deepEqual([whole.from(8), whole.from(5), lost.from(7), rewound.from(7), long.from(7)], Array(5).fill(null));
    assert.equal(listener().from(0), null);
  });
});
