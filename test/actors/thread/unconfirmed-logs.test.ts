import assert from "node:assert/strict";
import { test } from "node:test";
import { UnconfirmedLogs } from "../../../actors/thread/unconfirmed-logs.ts";
import type { Address } from "../../../bus/address.ts";
import type { Bus } from "../../../bus/bus.ts";
import { SvcError } from "../../../bus/errors.ts";
import { Sim } from "../../support/sim-env.ts";

function opened() {
  const sim = new Sim(1);
  const env = sim.env();
  const looks: [key: string, seconds: number][] = [];
  const from = sim.now;
  let timers = 0;
  const store = { isAway: false };
  const ask = async (to: Address): Promise<unknown> => {
    looks.push([to.key, Math.round((sim.now - from) / 1_000)]);
    if (store.isAway) throw new SvcError("storage_unavailable");
    return {};
  };
  const bus = { ask } as unknown as Pick<Bus, "ask">;
  const counted = {
    ...env,
    monotonic: () => env.monotonic(),
    timer(delayMs: number, work: () => void) {
      timers++;
      return env.timer(delayMs, work);
    },
  };
  return { sim, looks, logs: new UnconfirmedLogs(bus, counted), timers: () => timers, store };
}

const thread = (key: string) => ({ kind: "thread", key }) as const;

test("a log is checked four times, the last one ten minutes later, then dropped", async () => {
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

test("a log that cannot be checked then is checked again until the store is back", async () => {
  const { sim, looks, logs, store } = opened();
  store.isAway = true;
  logs.note(thread("acme:a"));
  await sim.advance(3_600_000);
  const before = looks.length;
  store.isAway = false;
  await sim.advance(7_200_000);

  assert.ok(before > 20, `${before}`);
  assert.ok(looks.length - before <= 4, `${looks.length - before}`);
});

test("a repeated one is checked again; beyond 10,000 the oldest is dropped", async () => {
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
