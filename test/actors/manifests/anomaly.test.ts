// The threshold at which failed runs are an anomaly.
import assert from "node:assert/strict";
import { test } from "node:test";
import { baselineOf, isAnomalous, rateOf, usualAfter } from "../../../actors/manifests/anomaly.ts";

const rules = { enabled: true, min_volume: 10, min_rate: 0.2, baseline_factor: 3 };
const of = (failures: number, runs: number) => ({ failures, runs });
const hourMs = 3_600_000;

for (const [seen, usual, changes, expected] of [
  [of(2, 10), of(0, 0), {}, true],
  [of(9, 9), of(0, 0), {}, false],
  [of(1, 10), of(0, 0), {}, false],
  [of(1, 10), of(0, 0), { min_rate: 0.1 }, true],
  [of(0, 10), of(0, 0), { min_rate: 0 }, false],
  [of(3, 10), of(1, 10), {}, false],
  [of(4, 10), of(1, 10), {}, true],
  [of(4, 10), of(1, 10), { baseline_factor: 4 }, false],
  [of(4, 10), of(1, 10), { baseline_factor: 1 }, true],
  [of(10, 10), of(10, 10), { baseline_factor: 1 }, false],
  [of(10, 10), of(0, 100), { enabled: false }, false],
  [of(3, 4), of(0, 0), { min_volume: 4 }, true],
] as const)
  test(`TASK-011 ${seen.failures} of ${seen.runs}, usually ${usual.failures} of ${usual.runs}, ${JSON.stringify(changes)}: ${expected}`, () => {
    assert.equal(isAnomalous(seen, usual, { ...rules, ...changes }), expected);
  });

test("TASK-011 a canary is compared with the active version, or with the usual rate", () => {
  const usual = of(1, 200);

  assert.deepEqual(baselineOf(of(5, 10), usual, rules), of(5, 10));
  assert.deepEqual(baselineOf(of(5, 9), usual, rules), usual);
});

test("the usual rate fades, and windows that overlap are counted once", () => {
  const first = usualAfter(undefined, "m", of(4, 40), hourMs, 0);
  const atOnce = usualAfter(first, "m", of(4, 40), hourMs, 0);
  const halfLater = usualAfter(first, "m", of(8, 80), hourMs, hourMs / 2);
  const dayLater = usualAfter(first, "m", of(0, 0), hourMs, 24 * hourMs);
  const clockSetBack = usualAfter(first, "m", of(9, 90), hourMs, -hourMs);

  assert.deepEqual(first, { manifest: "m", runs: 40, failures: 4, seen_at: 0 });
  assert.deepEqual(atOnce, first);
  assert.ok(Math.abs(halfLater.runs - (40 * Math.exp(-1 / 48) + 40)) < 1e-9, String(halfLater.runs));
  assert.ok(Math.abs(rateOf(halfLater) - 0.1) < 1e-9);
  assert.ok(Math.abs(dayLater.runs - 40 / Math.E) < 1e-9, String(dayLater.runs));
  assert.deepEqual([clockSetBack.runs, clockSetBack.seen_at], [40, -hourMs]);
  assert.equal(rateOf(of(0, 0)), 0);
});
