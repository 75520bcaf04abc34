import assert from "node:assert/strict";
import { test } from "node:test";
import { DoubtfulLogs } from "../../../actors/thread/doubtful-logs.ts";
import type { Address } from "../../../bus/address.ts";
import { Sim } from "../../support/sim-env.ts";

function opened() {
  const sim = new Sim(1);
  const env = sim.env();
  const looks: [key: string, seconds: number][] = [];
  const from = sim.now;
  let timers = 0;
  const bus = { tell: (to: Address) => void looks.push([to.key, Math.round((sim.now - from) / 1_000)]) };
  const counted = {
    ...env,
    monotonic: () => env.monotonic(),
    timer(delayMs: number, work: () => void) {
      timers++;
      return env.timer(delayMs, work);
    },
  };
  return { sim, looks, logs: new DoubtfulLogs(bus, counted), timers: () => timers };
}

const thread = (key: string) => ({ kind: "thread", key }) as const;

test("a log is looked at four times, the last one ten minutes later, and then forgotten", async () => {
  const { sim, looks, logs, timers } = opened();

  logs.note(thread("acme:a"));
  await sim.advance(2 * 3_600_000);
  const idle = timers();
  await sim.advance(3_600_000);

  assert.deepEqual(
    looks.map(([, seconds]) => seconds),
    [1, 10, 60, 600],
  );
  assert.equal(timers(), idle, "nothing is waited for");
});

test("one that is noted again is looked at anew, and beyond ten thousand the oldest is forgotten", async () => {
  const { sim, looks, logs } = opened();
  logs.note(thread("acme:first"));
  for (let i = 0; i < 9_999; i++) logs.note(thread(`acme:${i}`));
  logs.note(thread("acme:first"));
  logs.note(thread("acme:last"));

  await sim.advance(1_100);

  const looked = new Set(looks.map(([key]) => key));
  assert.equal(looked.size, 10_000);
  assert.deepEqual(
    ["acme:first", "acme:0", "acme:1", "acme:last"].map((key) => looked.has(key)),
    [true, false, true, true],
  );
});
