// Prices, authority and states of purchases by businesses, for random rules and amounts.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { dueAt, paymentTerms, purchaseAuthority } from "../../../plugins/commerce/b2b/authority.ts";
import { isOver, mayMove, quoteStates } from "../../../plugins/commerce/b2b/quote-states.ts";
import { adjustedPrice, centsMax } from "../../../plugins/commerce/core/money.ts";
import { judgeAnswer, namedIn } from "../../../plugins/commerce/geo/judge-answer.ts";
import {
  dynamicPrice,
  type PricingRule,
  ruleApplies,
  tierPrice,
  unitPrice,
} from "../../../plugins/commerce/pricing/prices.ts";
import { runs } from "../../support/effort.ts";

const cents = fc.integer({ min: 0, max: centsMax });
const options = { numRuns: runs(1_000) };
const clamp = fc.option(cents, { nil: null });
const adjustment = fc.record({
  adjustment_bps: fc.integer({ min: -10_000, max: 100_000 }),
  floor_cents: clamp,
  ceiling_cents: clamp,
});
const tier = fc.record({ min_qty: fc.integer({ min: 1, max: 1_000_000 }), unit_price_cents: cents });

test("B2B-018 adjustments of rules add up, and the strictest clamps hold, floors first", () => {
  fc.assert(
    fc.property(cents, fc.array(adjustment, { maxLength: 8 }), (price, rules) => {
      const got = dynamicPrice(price, rules);

      const floors = rules.flatMap(({ floor_cents }) => floor_cents ?? []);
      const ceilings = rules.flatMap(({ ceiling_cents }) => ceiling_cents ?? []);
      const sum = rules.reduce((total, { adjustment_bps }) => total + adjustment_bps, 0);
      assert.ok(Number.isSafeInteger(got) && got >= 0 && got <= centsMax);
      for (const floor of floors) assert.ok(got >= floor);
      if (floors.length === 0) for (const ceiling of ceilings) assert.ok(got <= ceiling);
      if (floors.length + ceilings.length === 0) assert.equal(got, adjustedPrice(price, sum));
      assert.equal(got, dynamicPrice(price, rules.toReversed()));
    }),
    options,
  );
});

test("B2B-011 an override beats a contract, that a discount, that rules, and those the catalog", () => {
  fc.assert(
    fc.property(
      cents,
      fc.integer({ min: 1, max: 1_000_000 }),
      clamp,
      fc.array(tier, { maxLength: 5 }),
      fc.integer({ min: 0, max: 10_000 }),
      fc.array(adjustment, { maxLength: 3 }),
      (catalogCents, quantity, overrideCents, tiers, discountBps, rules) => {
        const { source, unit_price_cents } = unitPrice({
          catalogCents,
          quantity,
          overrideCents,
          tiers,
          discountBps,
          rules,
        });

        const contract = tierPrice(tiers, quantity);
        const expected =
          overrideCents !== null
            ? ["override", overrideCents]
            : contract !== null
              ? ["contract", contract]
              : discountBps > 0
                ? ["account_discount", adjustedPrice(catalogCents, -discountBps)]
                : rules.length > 0
                  ? ["dynamic", dynamicPrice(catalogCents, rules)]
                  : ["catalog", catalogCents];
        assert.deepEqual([source, unit_price_cents], expected);
      },
    ),
    options,
  );
});

test("B2B-017 a rule applies by its scope and its kind", () => {
  const product = { id: "bolt", category: "metal", price_cents: 250 };
  // Thursday, 18:30 UTC.
  const demand = {
    now: Date.UTC(2026, 10, 26, 18, 30),
    units: (hours: number) => (hours >= 24 ? 10 : 2),
    competitorCents: 200,
  };
  const rule = (of: Partial<PricingRule>): PricingRule => ({
    ...{ scope: "catalog", scope_value: null, kind: "time", adjustment_bps: 1, floor_cents: null, ceiling_cents: null },
    ...{ conditions: {}, active: true },
    ...of,
  });
  const cases: readonly (readonly [Partial<PricingRule>, boolean])[] = [
    [{}, true],
    [{ active: false }, false],
    [{ scope: "category", scope_value: "metal" }, true],
    [{ scope: "category", scope_value: "wood" }, false],
    [{ scope: "product", scope_value: "bolt" }, true],
    [{ scope: "product", scope_value: "nut" }, false],
    [{ conditions: { days: [4] } }, true],
    [{ conditions: { days: [5] } }, false],
    [{ conditions: { from: "18:30", to: "19:00" } }, true],
    [{ conditions: { from: "18:00", to: "18:30" } }, false],
    [{ conditions: { from: "18:00", to: "02:00", days: [4] } }, true],
    [{ conditions: { from: "22:00", to: "19:00", days: [3] } }, true],
    [{ conditions: { from: "22:00", to: "19:00", days: [4] } }, false],
    [{ kind: "velocity", conditions: { min_units: 10 } }, true],
    [{ kind: "velocity", conditions: { min_units: 10, window_hours: 1 } }, false],
    [{ kind: "competitor", conditions: { max_price_cents: 200 } }, true],
    [{ kind: "competitor", conditions: { max_price_cents: 199 } }, false],
  ];

  assert.deepEqual(
    cases.map(([of]) => ruleApplies(rule(of), product, demand)),
    cases.map(([, applies]) => applies),
  );
});

test("B2B-016 blocked beats an approval, and no role exceeds credit or skips a limit", () => {
  const roles = fc.constantFrom("admin", "approver", "purchaser", "viewer" as const);
  const state = fc.constantFrom("active", "suspended" as const);
  fc.assert(
    fc.property(fc.constantFrom(...paymentTerms), state, state, roles, cents, cents, cents, cents, (...drawn) => {
      const [payment_terms, status, buyerStatus, role, credit_limit_cents, spending_limit_cents, open, amount] = drawn;
      const account = { status, payment_terms, credit_limit_cents } as const;
      const buyer = { role, status: buyerStatus, spending_limit_cents } as const;

      const { decision } = purchaseAuthority(account as never, buyer as never, open, amount);

      const isOverCredit = payment_terms !== "prepaid" && open + amount > credit_limit_cents;
      const isBlocked = status !== "active" || buyerStatus !== "active" || role === "viewer" || isOverCredit;
      const expected = isBlocked ? "blocked" : amount > spending_limit_cents ? "requires_approval" : "allowed";
      assert.equal(decision, expected);
    }),
    options,
  );
});

test("B2B-001 ordered and expired quotes never move, and no quote skips its acceptance", () => {
  for (const to of quoteStates)
    for (const end of ["ordered", "expired"] as const) assert.equal(mayMove(end, to), false);
  assert.deepEqual(
    quoteStates.filter((from) => mayMove(from, "ordered")),
    ["accepted", "pending_approval"],
  );
  assert.equal(isOver({ status: "sent", valid_until: 10 }, 10), true);
  assert.equal(isOver({ status: "sent", valid_until: 11 }, 10), false);
  assert.equal(isOver({ status: "ordered", valid_until: 1 }, 10), false);
  assert.deepEqual(
    paymentTerms.map((terms) => dueAt(terms, 0) / 86_400_000),
    [0, 15, 30, 60],
  );
});

test("GEO-003 a brand is found as a whole word, without regard to case and accents", () => {
  const answer = "Best are Übertrail, then trail works; Trail Worksmanship is something else.";

  const named = namedIn(answer, ["Ubertrail", "Trail", "ubertrail", "Ghost", 7, "TRAIL WORKS"], "Trail Works", 20);

  assert.deepEqual(named, ["Ubertrail", "Trail"]);
  assert.deepEqual(judgeAnswer(answer, "Trail Works", ["Ubertrail"]), { brand_mentioned: true, rank: 2 });
  assert.deepEqual(judgeAnswer(answer, "Rail", []), { brand_mentioned: false, rank: 0 });
  assert.deepEqual(judgeAnswer("", "Trail Works", []), { brand_mentioned: false, rank: 0 });
});
