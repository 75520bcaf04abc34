import assert from "node:assert/strict";
import { test } from "node:test";
import { busyWord, type LoadReading, othersShare, readLoad, readMachine } from "../../perf/machine-load.ts";

test("work and steal time are busy; waiting and interrupts are not", () => {
  const stat = "cpu  100 20 30 1000 50 7 13 4 90 0\ncpu0 1 1 1 1 1 1 1 1 1 1\nintr 5\n";

  const found = readMachine(stat);

  assert.deepEqual(found, { busyMs: 1540, totalMs: 12_240 });
});

test("the share of others is the machine's use without the harness", () => {
  const from: LoadReading = { totalMs: 10_000, busyMs: 4_000, ownMs: 1_000 };

  assert.equal(othersShare(from, { totalMs: 12_000, busyMs: 5_000, ownMs: 1_500 }), 0.25);
  assert.equal(othersShare(from, { totalMs: 12_000, busyMs: 5_000, ownMs: 2_000 }), 0);
  // A tick that was counted late.
  assert.equal(othersShare(from, { totalMs: 12_000, busyMs: 5_000, ownMs: 2_010 }), 0);
  assert.ok(Number.isNaN(othersShare(from, { totalMs: Number.NaN, busyMs: Number.NaN, ownMs: Number.NaN })));
});

test("a round is busy from a tenth of the machine on", () => {
  assert.equal(busyWord(0.099), "");
  assert.equal(busyWord(0.1), ", busy: 10% by others");
  assert.equal(busyWord(Number.NaN), "");
});

test("the work of this process counts as its own", { skip: process.platform !== "linux" }, () => {
  const from = readLoad();
  // The system counts in hundredths of a second.
  while (process.cpuUsage().user < 200_000 || readLoad().ownMs - from.ownMs < 100);
  const to = readLoad();

  assert.ok(to.ownMs - from.ownMs >= 100);
  assert.ok(to.busyMs >= from.busyMs && to.totalMs > from.totalMs);
});
