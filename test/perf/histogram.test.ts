import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Histogram } from "../../perf/histogram.ts";

const durationsMs = fc.array(
  fc.integer({ min: 0, max: 2 ** 31 - 1 }).map((micros) => micros / 1000),
  { minLength: 1 },
);

test("a quantile is within one percent of the exact one", () => {
  fc.assert(
    fc.property(durationsMs, fc.double({ min: 0, max: 1, noNaN: true }), (values, q) => {
      const histogram = new Histogram();
      for (const value of values) histogram.recordMs(value);

      const found = histogram.quantileMs(q);

      const sorted = values.toSorted((a, b) => a - b);
      const exact = sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? 0;
      assert.ok(Math.abs(found - exact) <= exact * 0.01, `${found} for ${exact}`);
    }),
  );
});

test("below 256 microseconds a quantile is exact", () => {
  const histogram = new Histogram();
  for (let micros = 0; micros < 256; micros += 1) histogram.recordMs(micros / 1000);

  const found = [1 / 256, 0.5, 1].map((q) => histogram.quantileMs(q));

  assert.deepEqual(found, [0, 0.127, 0.255]);
});

test("the bounds are the smallest and the largest value", () => {
  const histogram = new Histogram();
  for (const value of [1234.567, 3.001, 99.999]) histogram.recordMs(value);

  assert.equal(histogram.quantileMs(0), 3.001);
  assert.equal(histogram.quantileMs(1), 1234.567);
  assert.equal(histogram.count, 3);
});

test("the sum of two histograms is the histogram of all values, also as plain JSON", () => {
  fc.assert(
    fc.property(durationsMs, durationsMs, (left, right) => {
      const [a, b, both] = [new Histogram(), new Histogram(), new Histogram()];
      for (const value of left) a.recordMs(value);
      for (const value of right) b.recordMs(value);
      for (const value of [...left, ...right]) both.recordMs(value);

      a.add(JSON.parse(JSON.stringify(b.toData())));

      assert.deepEqual(a.toData(), both.toData());
    }),
  );
});

test("without values there is no quantile, and values out of range go to the ends", () => {
  const empty = new Histogram();
  const clamped = new Histogram();
  clamped.recordMs(-5);
  clamped.recordMs(1e12);

  assert.ok(Number.isNaN(empty.quantileMs(0.5)));
  assert.equal(Histogram.from(empty.toData()).count, 0);
  assert.equal(clamped.quantileMs(0), 0);
  assert.equal(clamped.quantileMs(1), (2 ** 31 - 1) / 1000);
});
