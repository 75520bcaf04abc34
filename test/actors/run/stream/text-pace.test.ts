import assert from "node:assert/strict";
import { test } from "node:test";
import { TextPace } from "../../../../actors/run/stream/text-pace.ts";
import type { Env } from "../../../../bus/env.ts";
import { Sim } from "../../../support/sim-env.ts";

/** A pace on a clock that moves only by the length of each turn of the event loop. */
function paced() {
  const sim = new Sim(1);
  const env = sim.env();
  let tookMs = 0;
  const slow: Env = {
    now: () => env.now(),
    monotonic: () => tookMs,
    id: () => env.id(),
    random: () => env.random(),
    timer: (delayMs, work) => env.timer(delayMs, work),
    defer: (work) => env.defer(work),
    soon: (work) => env.soon(work),
  };
  const pace = new TextPace(slow);
  return {
    sim,
    pace,
    /** One turn of the event loop with one request for the pace. */
    async turn(lengthMs: number): Promise<boolean> {
      const isBusy = pace.isBusy;
      tookMs += lengthMs;
      await sim.run();
      return isBusy;
    },
  };
}

test("text waits while turns of the event loop are long, and no longer", async () => {
  const { turn } = paced();

  const asked = [await turn(1), await turn(20), await turn(9), await turn(8), await turn(1)];

  assert.deepEqual(asked, [false, false, true, true, false]);
});

test("all waiters are called at the same beat, once", async () => {
  const { sim, pace } = paced();
  const called: string[] = [];
  const startedAt = sim.now;

  pace.onBeat(() => called.push(`first at ${sim.now - startedAt}`));
  await sim.advance(30);
  pace.onBeat(() => called.push(`second at ${sim.now - startedAt}`));
  await sim.advance(200);

  assert.deepEqual(called, ["first at 40", "second at 40"]);
});

test("a caller that returns during a beat waits for the next", async () => {
  const { sim, pace } = paced();
  const startedAt = sim.now;
  const called: number[] = [];
  pace.onBeat(() => {
    called.push(sim.now - startedAt);
    pace.onBeat(() => called.push(sim.now - startedAt));
  });

  await sim.advance(200);

  assert.deepEqual(called, [40, 80]);
});
