import assert from "node:assert/strict";
import { test } from "node:test";
import { pino } from "pino";
import { type PeriodicTask, startTasks } from "../../host/periodic-tasks.ts";
import { Sim } from "../support/sim-env.ts";

const log = pino({ level: "silent" });

/** A task that notes when it begins, takes some time, and fails when it is told to. */
function noted(sim: Sim, { takesMs = 0, pauseMs = 100, fails = false } = {}) {
  const env = sim.env();
  const startedAt = sim.now;
  const began: number[] = [];
  const task: PeriodicTask = {
    name: "noted",
    async run() {
      began.push(sim.now - startedAt);
      await new Promise<void>((resolve) => env.timer(takesMs, resolve));
      if (fails) throw new Error("the disk is full");
      return pauseMs;
    },
  };
  return { task, began, env };
}

test("a task is done at once, and again so long after it has ended: never twice at a time", async () => {
  const sim = new Sim(1);
  const { task, began, env } = noted(sim, { takesMs: 70, pauseMs: 100 });

  startTasks([task], env, log);
  await sim.advance(400);

  assert.deepEqual(began, [0, 170, 340]);
});

test("a task that fails is tried again in a minute, and keeps no other from its work", async () => {
  const sim = new Sim(2);
  const failing = noted(sim, { fails: true });
  const other = noted(sim, { pauseMs: 30_000 });

  startTasks([failing.task, other.task], failing.env, log);
  await sim.advance(120_000);

  assert.deepEqual(failing.began, [0, 60_000, 120_000]);
  assert.deepEqual(other.began, [0, 30_000, 60_000, 90_000, 120_000]);
});

test("nothing begins after the end, and what is under way is not begun again", async () => {
  const sim = new Sim(3);
  const { task, began, env } = noted(sim, { takesMs: 50, pauseMs: 10 });
  const stop = startTasks([task], env, log);
  await sim.advance(20);

  stop();
  await sim.advance(1_000);

  assert.deepEqual(began, [0]);
});
