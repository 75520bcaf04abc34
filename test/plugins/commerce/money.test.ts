// The arithmetic of money: totals agree to the cent, whatever the prices, quantities and rates.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  adjustedPrice,
  centsMax,
  decimalText,
  isCents,
  isCurrency,
  lineTotal,
  shareOf,
  splitCents,
  totalsOf,
} from "../../../plugins/commerce/core/money.ts";
import { runs } from "../../support/effort.ts";

const cents = fc.integer({ min: 0, max: 200_000 });
const line = fc.record({
  unit_price_cents: cents,
  quantity: fc.integer({ min: 1, max: 999 }),
  discount_cents: cents,
});
const bps = fc.integer({ min: 0, max: 10_000 });

test("COM-024 totals are the sums of their parts, rounded half up once", () => {
  fc.assert(
    fc.property(fc.array(line, { maxLength: 100 }), cents, bps, (lines, shipping_cents, tax_bps) => {
      const totals = totalsOf(lines, { shipping_cents, tax_bps });

      const subtotal = lines.reduce(
        (sum, one) => sum + Math.max(0, one.unit_price_cents * one.quantity - one.discount_cents),
        0,
      );
      const tax = Number((BigInt(subtotal + shipping_cents) * BigInt(tax_bps) * 2n + 10_000n) / 20_000n);
      if (subtotal + shipping_cents + tax > centsMax) return assert.equal(totals, null);
      assert.ok(totals !== null);
      assert.deepEqual([totals.subtotal_cents, totals.tax_cents], [subtotal, tax]);
      assert.equal(totals.total_cents, subtotal + shipping_cents + tax);
      assert.ok(Object.values(totals).every(isCents));
      assert.equal(
        lines.map(lineTotal).reduce((sum, one) => sum + one, 0),
        subtotal,
      );
    }),
    { numRuns: runs(1_000) },
  );
});

test("COM-024 parts of a split sum up to it, and differ from the exact share by less than a cent", () => {
  fc.assert(
    fc.property(cents, fc.array(cents, { minLength: 1, maxLength: 50 }), (amount, weights) => {
      const parts = splitCents(amount, weights);

      const all = weights.reduce((sum, weight) => sum + weight, 0);
      assert.equal(
        parts.reduce((sum, part) => sum + part, 0),
        amount,
      );
      if (all > 0)
        for (const [at, part] of parts.entries()) assert.ok(Math.abs(part - (amount * (weights[at] ?? 0)) / all) < 1);
    }),
    { numRuns: runs(1_000) },
  );
});

test("COM-024 an adjusted price is within its clamps, and a floor beats a ceiling", () => {
  const clamp = fc.option(cents, { nil: null });
  fc.assert(
    fc.property(cents, fc.integer({ min: -30_000, max: 30_000 }), clamp, clamp, (price, adjustment, floor, ceiling) => {
      const adjusted = adjustedPrice(price, adjustment, { floor, ceiling });

      assert.ok(isCents(adjusted));
      if (floor !== null) assert.ok(adjusted >= floor);
      if (ceiling !== null && (floor === null || ceiling >= floor)) assert.ok(adjusted <= ceiling);
    }),
    { numRuns: runs(1_000) },
  );
});

test("COM-033 shares round half up, and amounts are whole cents of currencies with two decimals", () => {
  assert.deepEqual([shareOf(50, 100), shareOf(49, 100), shareOf(centsMax, 10_000)], [1, 0, centsMax]);
  assert.deepEqual([decimalText(5), decimalText(1_999), decimalText(0)], ["0.05", "19.99", "0.00"]);
  assert.deepEqual(["usd", "eur", "jpy", "kwd", "USD", "us"].map(isCurrency), [true, true, false, false, false, false]);
  assert.deepEqual([0, centsMax, -1, 0.5, centsMax + 1, "1", Number.NaN].map(isCents), [
    true,
    true,
    ...Array(5).fill(false),
  ]);
});
