// Scheduled tasks that run once for all processes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { OnSchedule } from "../../host/on-schedule.ts";
import { testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const noon = Date.UTC(2026, 10, 23, 12);

async function world(t: Parameters<typeof cleanup>[0]) {
  const { store, another } = await testStore("sqlite", cleanup(t));
  let now = noon;
  const env = { now: () => now } as Parameters<OnSchedule["run"]>[1]["env"];
  const done: string[] = [];
  const stores = [store, another()];
  return {
    done,
    at(time: number) {
      now = time;
    },
    /** A process with a task at three in the morning. */
    host(name: string, fails: () => boolean = () => false) {
      const task = new OnSchedule("nightly", "0 3 * * *");
      const from = stores.pop() ?? store;
      return (why: "due" | "asked" = "due") =>
        task.run(why, { store: from, env }, async () => {
          done.push(`${name} ${new Date(now).toISOString().slice(8, 16)}`);
          if (fails()) throw new Error("the disk is full");
        });
    },
  };
}

test("TASK-012 a scheduled task runs at its times, once for all processes", async (t) => {
  const { done, at, host } = await world(t);
  const [one, other] = [host("one"), host("other")];

  const pauses = [await one(), await other()];
  at(noon + 15 * hourMs - 1);
  pauses.push(await one());
  at(noon + 15 * hourMs);
  await Promise.all([one(), other()]);
  await one();
  at(noon + 16 * hourMs);
  await other();

  assert.deepEqual(done.length, 1);
  assert.match(done[0] as string, /24T03:00$/);
  assert.deepEqual(pauses, [10 * minuteMs, 10 * minuteMs, 1]);
});

test("TASK-012 missed times are run once, by any process", async (t) => {
  const { done, at, host } = await world(t);
  await host("one")();

  at(noon + 5 * 24 * hourMs);
  const later = host("later");
  await later();
  await later();
  at(noon + 5 * 24 * hourMs + 15 * hourMs);
  await later();

  assert.deepEqual(done, ["later 28T12:00", "later 29T03:00"]);
});

test("a request runs the task at once and keeps its scheduled time", async (t) => {
  const { done, at, host } = await world(t);
  const one = host("one");

  await one("asked");
  at(noon + 15 * hourMs);
  await one();

  assert.deepEqual(done, ["one 23T12:00", "one 24T03:00"]);
});

test("a failed task is retried although its time is claimed", async (t) => {
  const { done, at, host } = await world(t);
  let isFull = true;
  const one = host("one", () => isFull);
  await one();
  at(noon + 15 * hourMs);

  await assert.rejects(one(), /the disk is full/);
  isFull = false;
  at(noon + 15 * hourMs + minuteMs);
  await one();
  await one();

  assert.deepEqual(done, ["one 24T03:00", "one 24T03:01"]);
});

test("a time written by a clock that was ahead is corrected, without a run", async (t) => {
  const { done, at, host } = await world(t);
  const one = host("one");
  at(noon + 400 * 24 * hourMs);
  await one();

  at(noon);
  await one();
  at(noon + 15 * hourMs);
  await one();

  assert.deepEqual(done, ["one 24T03:00"]);
});
