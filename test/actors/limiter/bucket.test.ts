import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  available,
  type BucketState,
  drained,
  fullAt,
  fullBucket,
  nextTokenMs,
  type Rate,
  settled,
  spareMax,
} from "../../../actors/limiter/bucket.ts";
import { runs } from "../../support/effort.ts";

const start = 1_700_000_000_000;

/** A bucket that is empty at `start`. */
function emptied(rate: Rate): BucketState {
  return settled(fullBucket(rate, start), "a", { taken: rate.limit, held: 0, until: 0 });
}

const rateOf = (limit: number, windowSeconds: number): Rate => ({ limit, windowMs: windowSeconds * 1000 });
const retryAfterSeconds = (state: BucketState, rate: Rate): number => Math.ceil(nextTokenMs(state, rate) / 1000);

test("a caller that retries at the announced time passes, and a second earlier fails", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 500 }),
      fc.integer({ min: 1, max: 86_400 }),
      fc.nat(100_000),
      (limit, windowSeconds, waitedMs) => {
        const rate = rateOf(limit, windowSeconds);
        const now = start + Math.min(waitedMs, Math.floor((windowSeconds * 1000) / limit / 2));
        const state = drained(emptied(rate), rate, now);
        const seconds = retryAfterSeconds(state, rate);
        assert.equal(available(state, rate), 0);
        assert.ok(Number.isSafeInteger(seconds) && seconds >= 1);

        const early = available(drained(state, rate, now + (seconds - 1) * 1000), rate);
        const told = available(drained(state, rate, now + seconds * 1000), rate);

        if (seconds > 1) assert.equal(early, 0);
        assert.ok(told >= 1);
      },
    ),
    { seed: 17, numRuns: runs(500) },
  );
});

for (const [limit, windowSeconds, waitedMs, seconds] of [
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
  test(`${limit} in ${windowSeconds} s, ${waitedMs} ms after the last: come back in ${seconds} s`, () => {
    const rate = rateOf(limit, windowSeconds);

    const state = drained(emptied(rate), rate, start + waitedMs);

    assert.deepEqual([available(state, rate), retryAfterSeconds(state, rate)], [0, seconds]);
  });

test("a prefetch is a sixty-fourth of the remainder, and zero near the end", () => {
  assert.deepEqual(
    [6400, 127, 64, 63, 0].map((left) => spareMax(left, false)),
    [100, 1, 1, 0, 0],
  );
});

test("a sole holder's prefetch is up to sixteen, and never more than a quarter", () => {
  assert.deepEqual(
    [6400, 120, 63, 4, 3, 0].map((left) => spareMax(left, true)),
    [100, 16, 15, 1, 0, 0],
  );
});

test("a bucket never exceeds its limit, and a clock that goes back adds nothing", () => {
  const rate = rateOf(3, 3);

  assert.equal(available(drained(emptied(rate), rate, start + 3_600_000), rate), 3);
  assert.equal(available(drained(emptied(rate), rate, start - 3_600_000), rate), 0);
});

test("a store's clock that is set back an hour adds nothing, then the usual rate", () => {
  const rate = rateOf(60, 60);
  const hourMs = 3_600_000;
  const held = settled(emptied(rate), "b", { taken: 0, held: 5, until: start + 10_000 });

  const after = drained(held, rate, start - hourMs);
  assert.equal(available(after, rate), 0);
  assert.equal(available(drained(after, rate, start - hourMs + 30_000), rate), 30);
  assert.equal(available(drained(held, rate, start - hourMs + 120_000), rate), 0);
  assert.deepEqual(after.slices, [{ holder: "b", held: 5, until: start - hourMs + 10_000 }]);
});

test("unspent requests return to the bucket only when their prefetch ends", () => {
  const rate = rateOf(10, 10);
  const state = settled(fullBucket(rate, start), "a", { taken: 10, held: 6, until: start + 20_000 });

  const leftAfter = (ms: number): number => available(drained(state, rate, start + ms), rate);

  assert.deepEqual([0, 1000, 4000, 19_999].map(leftAfter), [0, 1, 4, 4]);
  assert.deepEqual([20_000, 21_000, 25_999, 26_000].map(leftAfter), [4, 5, 9, 10]);
  assert.equal(fullAt(state, rate), start + 26_000);
});

test("with all requests prefetched, the next comes when the first prefetch ends", () => {
  const rate = rateOf(2, 2);
  const full = settled(fullBucket(rate, start), "a", { taken: 1, held: 1, until: start + 5_000 });
  const state = settled(full, "b", { taken: 1, held: 1, until: start + 9_000 });

  assert.equal(nextTokenMs(state, rate), 6_000);
  assert.equal(available(drained(state, rate, start + 5_999), rate), 0);
  assert.equal(available(drained(state, rate, start + 6_000), rate), 1);
});

test("returned requests are available at once", () => {
  const rate = rateOf(10, 86_400);
  const state = settled(fullBucket(rate, start), "a", { taken: 10, held: 4, until: start + 9_000 });

  const given = settled(state, "a", { taken: -4, held: 0, until: 0 });

  assert.equal(available(given, rate), 4);
  assert.deepEqual(given.slices, []);
});

test("a bucket written under another limit keeps its spent requests", () => {
  const before = emptied(rateOf(100, 60));

  const after = rateOf(150, 3600);

  assert.equal(available(drained(before, after, start), after), 50);
});

test("a bucket is full from the reported time on, and not before", () => {
  const slice = fc.record({ held: fc.integer({ min: 1, max: 20 }), afterMs: fc.integer({ min: 1, max: 60_000 }) });
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 100 }),
      fc.integer({ min: 1, max: 3600 }),
      fc.nat(100),
      fc.array(slice, { maxLength: 4 }),
      (limit, windowSeconds, spent, slices) => {
        const rate = rateOf(limit, windowSeconds);
        let state = settled(fullBucket(rate, start), "spent", { taken: spent, held: 0, until: 0 });
        for (const [at, { held, afterMs }] of slices.entries())
          state = settled(state, `${at}`, { taken: held, held, until: start + afterMs });

        const full = fullAt(state, rate);

        assert.deepEqual([drained(state, rate, full).level, drained(state, rate, full).slices], [0, []]);
        const before = drained(state, rate, full - 1);
        if (full > start) assert.ok(before.level > 0 || before.slices.length > 0);
      },
    ),
    { seed: 3, numRuns: runs(500) },
  );
});

/** The next step of a holder. */
const act = fc.record({
  holder: fc.nat(3),
  waitMs: fc.nat(4_000),
  kind: fc.constantFrom("take", "spend", "give", "vanish"),
  count: fc.integer({ min: 1, max: 30 }),
});

test("holders that spend early, late or never stay within the limit and the refill", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 60 }),
      fc.integer({ min: 1, max: 120 }),
      fc.array(act, { maxLength: 120 }),
      (limit, windowSeconds, acts) => {
        const rate = rateOf(limit, windowSeconds);
        const prefetchMs = 5_000;
        let now = start;
        let state = fullBucket(rate, now);
        const hands = Array.from({ length: 4 }, () => ({ id: 0, held: 0, until: 0 }));
        // The true level: a bucket that each request enters when it passes.
        let level = 0;
        let at = now;
        const pass = (count: number): void => {
          level = Math.max(0, level - (now - at) * rate.limit) + count * rate.windowMs;
          at = now;
          assert.ok(level <= rate.limit * rate.windowMs, `${level / rate.windowMs} of ${limit}`);
        };

        for (const { holder, waitMs, kind, count } of acts) {
          now += waitMs;
          const hand = hands[holder] as (typeof hands)[number];
          if (now >= hand.until) hand.held = 0;
          state = drained(state, rate, now);
          const name = `${holder}.${hand.id}`;
          if (kind === "vanish") Object.assign(hand, { id: hand.id + 1, held: 0 });
          else if (kind === "spend" && hand.held > 0) {
            const spent = Math.min(count, hand.held);
            hand.held -= spent;
            pass(spent);
          } else if (kind === "give") {
            state = settled(state, name, { taken: -hand.held, held: 0, until: 0 });
            hand.held = 0;
          } else if (kind === "take") {
            const taken = Math.min(count, available(state, rate));
            const spent = Math.min(taken, 1 + (count % 3));
            hand.held += taken - spent;
            hand.until = now + prefetchMs;
            state = settled(state, name, { taken, held: hand.held, until: hand.until });
            pass(spent);
          }
        }
      },
    ),
    { seed: 5, numRuns: runs(2_000) },
  );
});
