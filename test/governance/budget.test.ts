import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { type Breach, isBreach, type Reservation, RunBudget } from "../../governance/budget.ts";
import { costOf, type PricedTokens } from "../../governance/usage.ts";
import type { ModelPrice } from "../../manifests/registries.ts";
import type { RunLimits } from "../../manifests/sections/limits.ts";
import { runs } from "../support/effort.ts";

const price: ModelPrice = { input: 2, output: 8, cache_read: 0.5, cache_write: 2 };
const free: ModelPrice = { input: 0, output: 0, cache_read: 0, cache_write: 0 };
/** The rates of a provider with a surcharge for cache writes. */
const keeping: ModelPrice = { ...price, cache_write: 2.5 };
const open: RunLimits = {
  max_tool_calls: 500,
  max_wall_clock_seconds: 3600,
  max_peer_hops: 5,
  max_input_tokens: 1_000_000,
  max_output_tokens: 100_000,
  max_cost_usd: 1000,
};
const startedAt = 1_000_000;

function budget(limits: Partial<RunLimits> = {}): RunBudget {
  return new RunBudget({ ...open, ...limits }, startedAt);
}

function granted(outcome: Reservation | Breach): Reservation {
  assert.ok(!isBreach(outcome), JSON.stringify(outcome));
  return outcome;
}

const breachOf = (outcome: Reservation | Breach | null) => (outcome !== null && "limit" in outcome ? outcome : null);
const used = (input: number, output: number): PricedTokens => ({ input, output, cacheRead: 0, cacheWrite: 0 });

describe("RunBudget", () => {
  test("parallel calls never exceed a cap together, in any order of reserve and settle", () => {
    const step = fc.record({
      does: fc.constantFrom("reserve", "extend", "settle"),
      input: fc.integer({ min: 0, max: 400 }),
      wanted: fc.option(fc.integer({ min: 1, max: 400 })),
      /** The used part of the reservation. */
      share: fc.double({ min: 0, max: 1, noNaN: true }),
      readShare: fc.double({ min: 0, max: 1, noNaN: true }),
      writtenShare: fc.double({ min: 0, max: 1, noNaN: true }),
      priced: fc.boolean(),
    });
    const caps = fc.record({
      max_input_tokens: fc.integer({ min: 1, max: 1_000 }),
      max_output_tokens: fc.integer({ min: 1, max: 1_000 }),
      max_cost_usd: fc.double({ min: 0, max: 0.01, noNaN: true }),
    });

    fc.assert(
      fc.property(caps, fc.array(step, { maxLength: 40 }), (limits, steps) => {
        const run = budget(limits);
        const waiting: { reserved: Reservation; priced: boolean }[] = [];
        let [input, output, cost] = [0, 0, 0];
        for (const { does, input: wantedInput, wanted, share, readShare, writtenShare, priced } of steps) {
          const settled = does === "settle" ? waiting.shift() : undefined;
          const [oldest] = waiting;
          if (does === "extend" && oldest) run.extend(oldest.reserved);
          else if (settled) {
            const prompt = Math.floor(settled.reserved.inputTokens * share);
            const cacheRead = Math.floor(prompt * readShare);
            const cacheWrite = Math.floor((prompt - cacheRead) * writtenShare);
            const words = Math.floor(settled.reserved.outputTokens * share);
            const tokens = { input: prompt - cacheRead - cacheWrite, output: words, cacheRead, cacheWrite };
            run.settle(settled.reserved, tokens, settled.priced ? keeping : null);
            input += prompt;
            output += words;
            cost += costOf(tokens, settled.priced ? keeping : null).total;
          } else {
            const outcome = run.reserve(wantedInput, wanted, priced ? keeping : null, startedAt);
            if (!isBreach(outcome)) waiting.push({ reserved: outcome, priced });
          }
          const aside = (of: (reserved: Reservation) => number) =>
            waiting.reduce((sum, { reserved }) => sum + of(reserved), 0);
          assert.ok(input + aside(({ inputTokens }) => inputTokens) <= limits.max_input_tokens);
          assert.ok(output + aside(({ outputTokens }) => outputTokens) <= limits.max_output_tokens);
          assert.ok(cost + aside(({ costUsd }) => costUsd) <= limits.max_cost_usd + 1e-12);
        }
      }),
      { numRuns: runs(300), seed: 1 },
    );
  });

  test("tool calls are counted one by one, and a breach stays", () => {
    const run = budget({ max_tool_calls: 2 });

    const outcomes = Array.from({ length: 4 }, () => run.takeToolCall(startedAt));

    const breach = { limit: "max_tool_calls", detail: "max_tool_calls (2) reached" };
    assert.deepEqual(outcomes, [null, null, breach, breach]);
  });

  test("a reservation pays exactly its own amount, whatever the rounding of a sum", async () => {
    // In floating point the two parts, 0.1 and 0.2, cost more together than 0.3.
    const parentBudget = {
      binds: true,
      reserve: async () => ({ reservation_id: "above", input_tokens: 50_000, output_tokens: 25_000, cost_usd: 0.3 }),
      repay: () => {},
      count: async () => null,
    };
    const run = new RunBudget(open, startedAt, null, parentBudget);
    const borrowed = await run.borrow(50_000, 25_000, price);
    assert.ok(borrowed !== "gone" && "lent" in borrowed);

    const reserved = granted(run.reserve(50_000, 25_000, price, startedAt, borrowed));

    assert.deepEqual([reserved.inputTokens, reserved.outputTokens], [50_000, 25_000]);
    assert.equal(0.1 + 0.2 > 0.3, true);
  });

  test("a call may spend no more than its reservation and no more than the run's limit", async () => {
    const spends = async (max_cost_usd: number, wanted: number) => {
      const lent = { reservation_id: "above", input_tokens: 50_000, output_tokens: 90_000, cost_usd: 0.3 };
      const parentBudget = { binds: true, reserve: async () => lent, repay: () => {}, count: async () => null };
      const run = new RunBudget({ ...open, max_cost_usd }, startedAt, null, parentBudget);
      const borrowed = await run.borrow(50_000, wanted, price);
      assert.ok(borrowed !== "gone" && "lent" in borrowed);
      return granted(run.reserve(50_000, wanted, price, startedAt, borrowed)).outputTokens;
    };

    // The input costs 0.1 USD.
    assert.equal(await spends(1000, 90_000), 25_000, "the reservation has 0.2 left");
    assert.equal(await spends(0.2, 90_000), 12_500, "the limit has 0.1 left");
    assert.equal(await spends(0.3, 25_000), 25_000, "the limit is exactly the reservation");
  });

  test("nothing begins when the time is over, to the millisecond", () => {
    const run = budget({ max_wall_clock_seconds: 10 });

    assert.equal(run.deadline, startedAt + 10_000);
    assert.equal(run.takeToolCall(run.deadline - 1), null);
    assert.ok(!isBreach(run.reserve(1, 1, null, run.deadline - 1)));
    const breach = { limit: "max_wall_clock_seconds", detail: "max_wall_clock_seconds (10) reached" };
    assert.deepEqual(run.takeToolCall(run.deadline), breach);
    assert.deepEqual(run.reserve(1, 1, null, run.deadline), breach);
  });

  test("a prompt of exactly the remainder passes, and one token more does not", () => {
    assert.equal(granted(budget({ max_input_tokens: 100 }).reserve(100, null, null, startedAt)).inputTokens, 100);
    const breach = breachOf(budget({ max_input_tokens: 100 }).reserve(101, null, null, startedAt));
    assert.equal(breach?.limit, "max_input_tokens");
  });

  test("a call reserves output within its wish, the remainder and the money", () => {
    const sets = (limits: Partial<RunLimits>, wanted: number | null, rates: ModelPrice | null) => {
      const { outputTokens, outputTokensMax } = granted(budget(limits).reserve(1_000, wanted, rates, startedAt));
      return [outputTokens, outputTokensMax];
    };

    assert.deepEqual(sets({}, null, null), [4_096, 100_000]);
    assert.deepEqual(sets({}, 300, price), [300, 100_000]);
    assert.deepEqual(sets({ max_output_tokens: 200 }, 300, price), [200, 200]);
    // 0.01 USD less 0.002 for the prompt, at 8 USD per million.
    assert.deepEqual(sets({ max_cost_usd: 0.01 }, null, price), [1_000, 1_000]);
    assert.deepEqual(sets({ max_cost_usd: 0.01 }, null, null), [4_096, 100_000]);
    assert.deepEqual(sets({ max_cost_usd: 0 }, 300, free), [300, 100_000]);
  });

  test("a call that continues gets more while any is left, or the exhausted limit's name", () => {
    const run = budget({ max_output_tokens: 10_000 });
    const [first, second] = [
      granted(run.reserve(0, null, null, startedAt)),
      granted(run.reserve(0, null, null, startedAt)),
    ];

    const outcomes = [run.extend(first), run.extend(second), run.extend(first)];

    assert.deepEqual([first.outputTokens, second.outputTokens], [4_096 + 1_808, 4_096]);
    const breach = { limit: "max_output_tokens", detail: "max_output_tokens (10000) reached" };
    assert.deepEqual(outcomes, [null, breach, breach]);
    run.settle(first, used(0, 1_000), null);
    assert.equal(run.extend(second), null, "what the other has not used is there again");
    assert.equal(second.outputTokens, 8_192);
  });

  test("a call that continues gets no more than its dearest rate can pay", () => {
    const run = budget({ max_cost_usd: 0.04 });
    const reserved = granted(run.reserve(0, null, price, startedAt));

    const outcomes = [run.extend(reserved), run.extend(reserved)];

    assert.deepEqual([outcomes[0], breachOf(outcomes[1] ?? null)?.limit], [null, "max_cost_usd"]);
    assert.equal(reserved.outputTokens, 5_000);
    run.settle(reserved, null, null);
    assert.equal(run.spent.output_tokens, 0);
    assert.ok(Math.abs(run.spent.cost_usd) < 1e-12);
  });

  test("a call that cannot be paid is refused, and a free one is not", () => {
    const refused = budget({ max_cost_usd: 0.002 }).reserve(1_000, 1, price, startedAt);

    assert.deepEqual(refused, { limit: "max_cost_usd", detail: "max_cost_usd (0.002) reached" });
    assert.ok(!isBreach(budget({ max_cost_usd: 0 }).reserve(1_000, 1, null, startedAt)));
  });

  test("the unused part of a reservation is free for the next call, the used is not", () => {
    const run = budget({ max_input_tokens: 1_000, max_output_tokens: 100 });
    const first = granted(run.reserve(1_000, null, price, startedAt));

    const meanwhile = run.reserve(1, null, price, startedAt);
    run.settle(first, used(400, 30), price);
    const next = granted(run.reserve(600, null, price, startedAt));
    run.settle(next, null, null);
    const afterFailure = granted(run.reserve(600, null, price, startedAt));

    assert.equal(breachOf(meanwhile)?.limit, "max_input_tokens");
    assert.equal(next.outputTokens, 70);
    assert.equal(afterFailure.outputTokens, 70, "a call that failed has cost nothing");
    run.settle(afterFailure, used(600, 70), price);
    assert.equal(breachOf(run.reserve(0, 1, price, startedAt))?.limit, "max_output_tokens");
  });

  test("cached tokens are input, at their own rates", () => {
    const run = budget({ max_input_tokens: 1_000, max_cost_usd: 0.001 });
    const reserved = granted(run.reserve(0, 1, keeping, startedAt));

    run.settle(reserved, { input: 100, output: 0, cacheRead: 500, cacheWrite: 100 }, keeping);

    // 0.0002, 0.00025 and 0.00025 are spent; 0.0003 are left, or 37 tokens of output.
    const next = granted(run.reserve(0, 500, keeping, startedAt));
    assert.equal(next.outputTokens, 37);
    run.settle(next, null, null);
    assert.equal(breachOf(run.reserve(301, 1, null, startedAt))?.limit, "max_input_tokens");
    granted(run.reserve(300, 1, null, startedAt));
  });

  test("cache writes may cost more than input, and money is reserved for that", () => {
    const run = budget({ max_cost_usd: 0.0025 });

    const reserved = run.reserve(1_000, 1, { ...keeping, output: 0 }, startedAt);
    const beyond = run.reserve(1, 1, { ...keeping, output: 0 }, startedAt);

    assert.equal(granted(reserved).costUsd, 0.0025);
    assert.equal(breachOf(beyond)?.limit, "max_cost_usd");
  });
});

test("DEL-005 a borrowed budget ends at the earlier of its two deadlines", () => {
  const lasting = (latest?: number) => new RunBudget(open, startedAt, null, null, latest).deadline - startedAt;
  const own = open.max_wall_clock_seconds * 1000;

  assert.deepEqual([lasting(), lasting(startedAt + 5), lasting(startedAt + own + 5)], [own, 5, own]);
});

test("a parent's reservation is returned once, however often that is requested", async () => {
  const repaid: string[] = [];
  const parentBudget = {
    binds: true,
    reserve: async () => ({ reservation_id: "above", input_tokens: 10, output_tokens: 10, cost_usd: 0 }),
    repay: (reservationId: string) => void repaid.push(reservationId),
    count: async () => null,
  };
  const shared = new RunBudget(open, startedAt, null, parentBudget);
  const borrowed = await shared.borrow(10, 10, null);
  assert.ok(typeof borrowed === "object" && "lent" in borrowed);

  shared.repay(borrowed);
  shared.repay(borrowed);

  assert.deepEqual(repaid, ["above"]);
});
