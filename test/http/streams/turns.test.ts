// A turn whose acceptance does not arrive in time is asked for again with the same run id, three times in all (decision
// 46).
import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { defineActor } from "../../../actors/runtime/define.ts";
import type { Bus } from "../../../bus/bus.ts";
import { type ErrorCode, SvcError } from "../../../bus/errors.ts";
import type { SubmitTurn, TurnAccepted } from "../../../bus/protocol/run.ts";
import { encodeAnswer } from "../../../bus/protocol/turn-answer.ts";
import { SlotSet } from "../../../bus/slot-map.ts";
import type { LiveTurn } from "../../../http/context.ts";
import { answerTurn, streamTurn } from "../../../http/streams/turns.ts";
import { emptyTurn } from "../../support/empty-turn.ts";
import { outcomeOf } from "../../support/outcome.ts";
import { SimNet } from "../../support/sim-bus.ts";
import { Sim } from "../../support/sim-env.ts";

const fields = { ...emptyTurn, surface: "chat" } as const;
const principal = { tenant_id: "acme", sub: "alice", scopes: [], scheme: "none", issuer: "" } as const;

/** An actor of runs with this answer to `start`. */
function runActor(
  start: (turn: SubmitTurn, bus: Bus) => Promise<TurnAccepted> | TurnAccepted,
  hear: (message: "abort" | "detach") => void = () => {},
) {
  return defineActor<"run", null, undefined>({
    kind: "run",
    mailboxLimit: 8,
    interleaves: ["start", "abort"],
    reserved: [],
    passivateAfterMs: 60_000,
    load: () => null,
    idle: () => false,
    crashed: () => {},
    on: {
      start: (_state, turn: SubmitTurn, { bus }) => start(turn, bus),
      requeue: () => Promise.reject(new SvcError("run_not_dead")),
      abort: () => {
        hear("abort");
        return { aborted: false };
      },
      detach: () => hear("detach"),
      answer: () => ({ outcome: "over" }),
      resume() {},
      work: () => ({ taken: false }),
      steer() {},
      request: () => null,
      tools: () => ({ tools: "[]" }),
      status: () => ({ live: null, since_seq: -1 }),
      relay() {},
      taskAside() {},
      taskEnded: () => ({}),
      screen: (_state, { text }) => ({ text, manifest: "" }),
      taskResumed: () => ({}),
      alive: () => ({ alive: false, runs: false }),
    },
  });
}

const asked = {
  ...{ previous_response_id: null, metadata: {}, max_output_tokens: null, temperature: null },
  ...{ store: true, follows: null },
};
const exchange = { onAborted() {}, head: { headers: {} } };
const request = { exchange, rawBody: Buffer.from("{}"), principal, requestId: "r", params: {}, query: {}, body: {} };

/** Runs a turn whose actor ignores the first asks, and refuses or accepts the next one. */
async function ask(unanswered: number, refusal: ErrorCode | null = null) {
  const sim = new Sim(5);
  const asks: { run_id: string; atMs: number }[] = [];
  const actor = runActor((turn, bus) => {
    asks.push({ run_id: turn.run_id, atMs: sim.now - startedAt });
    if (asks.length <= unanswered) return new Promise<never>(() => {});
    if (refusal !== null) throw new SvcError(refusal);
    bus.channel(turn.channel).send(encodeAnswer(200, '{"said":true}'), true);
    return { kind: "started" };
  });
  const net = new SimNet(sim, { actorNodes: [1], otherNodes: [10], definitions: [actor] });
  const { bus, env } = net.node(10);
  const startedAt = sim.now;
  const turns = new SlotSet();
  const outcome = await sim.until(
    outcomeOf(answerTurn(request as never, fields, { bus, env, turns, closing: () => false } as never)),
  );
  return { asks, outcome, left: turns.size };
}

for (const unanswered of [0, 1, 2])
  test(`answered at ask ${unanswered + 1}, it is one run and one answer`, async () => {
    const { asks, outcome, left } = await ask(unanswered);

    assert.deepEqual(outcome, { answer: { kind: "json", status: 200, body: '{"said":true}' } });
    assert.equal(asks.length, unanswered + 1);
    assert.equal(new Set(asks.map(({ run_id }) => run_id)).size, 1);
    for (const [at, { atMs }] of asks.entries()) assert.ok(Math.abs(atMs - at * 10_000) < 1_000, `${atMs}`);
    assert.equal(left, 0);
  });

test("without an answer it gives up after six asks with an unknown outcome", async () => {
  const { asks, outcome, left } = await ask(6);

  assert.deepEqual([asks.length, outcome, left], [6, { refused: "deadline_exceeded" }, 0]);
});

for (const code of ["run_in_progress", "actor_lost", "storage_unavailable"] as const)
  test(`refused with ${code}, it is not asked for again`, async () => {
    const { asks, outcome, left } = await ask(0, code);

    assert.deepEqual([asks.length, outcome, left], [1, { refused: code }, 0]);
  });

for (const [what, thread_suffix, key, heard] of [
  ["on a thread continues", "t", undefined, ["detach"]],
  ["without a thread is stopped", null, undefined, ["abort"]],
  ["with an Idempotency-Key continues", null, "key", []],
] as const)
  for (const isEarly of [true, false])
    test(`a turn ${what} when its client leaves ${isEarly ? "before" : "after"} acceptance`, async () => {
      const sim = new Sim(5);
      const told: string[] = [];
      const accepted = Promise.withResolvers<TurnAccepted>();
      let end = (): void => {};
      const actor = runActor(
        (turn, bus) => {
          end = () => bus.channel(turn.channel).send(encodeAnswer(200, "{}"), true);
          return accepted.promise;
        },
        (message) => told.push(message),
      );
      const { bus, env } = new SimNet(sim, { actorNodes: [1], otherNodes: [10], definitions: [actor] }).node(10);
      const gone: (() => void)[] = [];
      const head = { headers: key === undefined ? {} : { "idempotency-key": key } };
      const leaving = { ...request, exchange: { onAborted: (work: () => void) => gone.push(work), head } };
      const turns = new SlotSet();
      const context = { bus, env, turns, closing: () => false };
      let isAnswered = false;
      void answerTurn(leaving as never, { ...fields, thread_suffix }, context as never).then(() => {
        isAnswered = true;
      });
      await sim.advance(100);

      if (isEarly) for (const work of gone) work();
      const before = [...told];
      accepted.resolve({ kind: "started" });
      await sim.advance(100);
      const meanwhile = [...told];
      for (const work of gone) work();
      await sim.advance(100);
      // Later frames of the run have no receiver.
      end();
      await sim.advance(100);

      assert.deepEqual([before, meanwhile, told, turns.size], [[], isEarly ? heard : [], heard, 0]);
      assert.equal(isAnswered, false, "what counts answers would count one with status 0");
    });

test("a turn fails with the node that runs it, and with no other", async () => {
  const sim = new Sim(5);
  const actor = runActor(() => ({ kind: "started" }));
  const { bus, env } = new SimNet(sim, { actorNodes: [1], otherNodes: [10], definitions: [actor] }).node(10);
  const turns = new SlotSet<LiveTurn>();
  let isAnswered = false;
  const answer = answerTurn(request as never, fields, { bus, env, turns, closing: () => false } as never);
  void answer.then(() => {
    isAnswered = true;
  });
  await sim.advance(100);
  const run = bus.nodeOf({ kind: "run", key: "any" });

  for (const turn of [...turns]) turn.lost(bus.node);
  await sim.advance(100);
  const before = [isAnswered, turns.size];
  for (const turn of [...turns]) turn.lost(run);

  const reply = await sim.until(answer);
  assert.notEqual(run, bus.node);
  assert.deepEqual(before, [false, 1]);
  assert.ok(reply.kind === "json" && reply.status === 503 && reply.body.includes("actor_lost"), JSON.stringify(reply));
  assert.equal(turns.size, 0);
});

test("a turn that was answered before does not count as live", async () => {
  const sim = new Sim(5);
  const actor = runActor(() => ({ kind: "answer", status: 200, body: "{}" }));
  const { bus, env } = new SimNet(sim, { actorNodes: [1], otherNodes: [10], definitions: [actor] }).node(10);
  const turns = new SlotSet();

  const reply = await sim.until(
    answerTurn(request as never, fields, { bus, env, turns, closing: () => false } as never),
  );

  assert.ok(reply.kind === "json" && reply.headers?.["idempotent-replayed"] === "true", JSON.stringify(reply));
  assert.equal(turns.size, 0);
});

test("a started turn does not keep its request in memory", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const sim = new Sim(5);
  const actor = runActor(() => ({ kind: "started" }));
  const { bus, env } = new SimNet(sim, { actorNodes: [1], otherNodes: [10], definitions: [actor] }).node(10);
  const turns = new SlotSet();
  const context = { bus, env, turns, closing: () => false, durableAgents: { has: () => false } };
  const open = (number: number) => {
    const options = JSON.stringify([number, Buffer.alloc(200_000, 0x61).toString()]);
    const response = { ...asked, instructions: Buffer.alloc(100_000, 0x62).toString() };
    const turn = { ...emptyTurn, surface: "responses_stream", options, response } as const;
    return sim.until(outcomeOf(streamTurn(request as never, turn, context as never)));
  };
  const outcomes = [await open(0)];
  collect();
  const before = process.memoryUsage().heapUsed;

  for (let number = 1; number <= 40; number++) outcomes.push(await open(number));

  collect();
  const grown = process.memoryUsage().heapUsed - before;
  assert.deepEqual([turns.size, outcomes.length], [41, 41]);
  assert.ok(grown < 4_000_000, `${grown} bytes for turns that were sent 12,000,000`);
});
