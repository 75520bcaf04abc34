import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { TokenBucket } from "../../../actors/limiter/bucket.ts";

const start = 1_700_000_000_000;

/** A bucket with nothing left in it at `start`. */
function emptied(limit: number, windowSeconds: number): TokenBucket {
  const bucket = new TokenBucket(limit, windowSeconds, start);
  for (let i = 0; i < limit; i++) assert.equal(bucket.lease(1, start).granted, 1);
  return bucket;
}

test("who comes back when it was told to gets in, and a second earlier it would not have", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 500 }),
      fc.integer({ min: 1, max: 86_400 }),
      fc.nat(100_000),
      (limit, windowSeconds, waitedMs) => {
        const bucket = emptied(limit, windowSeconds);
        const now = start + Math.min(waitedMs, Math.floor((windowSeconds * 1000) / limit / 2));
        const { granted, retryAfterSeconds } = bucket.lease(1, now);
        assert.equal(granted, 0);
        assert.ok(Number.isSafeInteger(retryAfterSeconds) && retryAfterSeconds >= 1);

        const early = bucket.lease(1, now + (retryAfterSeconds - 1) * 1000);
        const told = bucket.lease(1, now + retryAfterSeconds * 1000);

        if (retryAfterSeconds > 1) assert.equal(early.granted, 0);
        assert.equal(early.granted + told.granted >= 1, true);
      },
    ),
    { seed: 17, numRuns: 500 },
  );
});

for (const [limit, windowSeconds, waitedMs, retryAfterSeconds] of [
  [1, 3600, 0, 3600],
  [49, 86_400, 0, 1764],
  [1, 60, 0, 60],
  [1, 60, 1, 60],
  [1, 60, 999, 60],
  [1, 60, 1000, 59],
  [1, 60, 58_999, 2],
  [1, 60, 59_000, 1],
  [1, 60, 59_999, 1],
  [2, 3, 0, 2],
  [120, 60, 0, 1],
  [1000, 1, 0, 1],
] as const)
  test(`${limit} in ${windowSeconds} s, ${waitedMs} ms after the last: come back in ${retryAfterSeconds} s`, () => {
    const lease = emptied(limit, windowSeconds).lease(1, start + waitedMs);

    assert.deepEqual(lease, { granted: 0, retryAfterSeconds });
  });

test("a lease is what was wanted, at most a sixty-fourth of what is left, and one at least", () => {
  const bucket = new TokenBucket(6400, 60, start);

  assert.equal(bucket.lease(1024, start).granted, 100);
  assert.equal(bucket.lease(7, start).granted, 7);
  assert.equal(bucket.lease(1024, start).granted, Math.floor((6400 - 107) / 64));
  assert.equal(new TokenBucket(63, 60, start).lease(1024, start).granted, 1);
});

test("a bucket is never more than full", () => {
  const bucket = emptied(3, 3);

  let granted = 0;
  for (let i = 0; i < 10; i++) granted += bucket.lease(1, start + 3_600_000).granted;

  assert.equal(granted, 3);
});

test("a clock that goes back takes nothing from it", () => {
  const bucket = new TokenBucket(3, 3, start);

  let granted = 0;
  for (let i = 0; i < 10; i++) granted += bucket.lease(1, start - 3_600_000).granted;

  assert.equal(granted, 3);
});
