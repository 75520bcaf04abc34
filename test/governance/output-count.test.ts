import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { isBreach, RunBudget } from "../../governance/budget.ts";
import { estimatedTokens, OutputCount } from "../../governance/output-count.ts";
import { limitBounds } from "../../manifests/sections/limits.ts";
import { runs } from "../support/effort.ts";

const open = {
  max_tool_calls: limitBounds.max_tool_calls.unset,
  max_wall_clock_seconds: limitBounds.max_wall_clock_seconds.unset,
  max_peer_hops: limitBounds.max_peer_hops.unset,
  max_input_tokens: limitBounds.max_input_tokens.unset,
  max_output_tokens: limitBounds.max_output_tokens.unset,
  max_cost_usd: limitBounds.max_cost_usd.unset,
};

/** A count of a call in a run with this much output left, whose provider was given the bound `told`. */
function counting(max_output_tokens: number, told: number | null = null, wanted = told) {
  const budget = new RunBudget({ ...open, max_output_tokens }, 0);
  const reserved = budget.reserve(0, wanted, null, 0);
  assert.ok(!isBreach(reserved));
  return { budget, reserved, count: new OutputCount(budget, reserved, told) };
}

describe("OutputCount", () => {
  test("text within the bound is accepted whole, to the last character", () => {
    const { count } = counting(100);

    assert.equal(count.take(399, 1), 399);
    assert.equal(count.take(1, 1), 1);
    assert.deepEqual([count.breach, count.tokens], [null, 100]);
  });

  test("text past the bound is cut, and nothing after it is accepted or counted", () => {
    const { count } = counting(100);

    const taken = [count.take(390, 1), count.take(30, 1), count.take(1, 1)];

    assert.deepEqual(taken, [390, 10, 0]);
    assert.equal(count.breach?.limit, "max_output_tokens");
    assert.equal(count.tokens, 100);
  });

  test("a piece counts at least one token: many short ones end the call", () => {
    const { count } = counting(100);

    const taken = [count.take(80, 80), count.take(40, 40)];

    assert.deepEqual(taken, [80, 20]);
    assert.deepEqual([count.breach?.limit, count.tokens], ["max_output_tokens", 100]);
  });

  test("a provider that got the bound may have long tokens, and counts as within it", () => {
    const told = counting(100, 100).count;
    const untold = counting(100).count;

    assert.equal(told.take(620, 100), 620);
    assert.deepEqual([told.breach, told.tokens], [null, 100]);
    assert.equal(untold.take(620, 100), 400);
  });

  test("a provider that exceeds its bound is ended, by pieces or twice the characters", () => {
    const byPieces = counting(100, 100).count;
    const byCharacters = counting(100, 100).count;

    assert.equal(byPieces.take(202, 101), 200);
    assert.equal(byCharacters.take(1_000, 10), 800);
    assert.deepEqual([byPieces.tokens, byCharacters.tokens], [100, 100]);
  });

  test("a requested maximum is no limit: the call continues while the run has any left", () => {
    const { count, reserved, budget } = counting(50_000, 100);

    assert.equal(count.take(40_000, 10_000), 40_000);

    assert.deepEqual([count.breach, count.tokens], [null, 10_000]);
    assert.ok(reserved.outputTokens >= 10_000 && reserved.outputTokens <= 14_096);
    assert.equal(budget.spent.output_tokens, reserved.outputTokens);
  });

  test("two parallel calls share the remainder, and the later one ends", () => {
    const budget = new RunBudget({ ...open, max_output_tokens: 10_000 }, 0);
    const [first, second] = [budget.reserve(0, null, null, 0), budget.reserve(0, null, null, 0)];
    assert.ok(!isBreach(first) && !isBreach(second));
    const [one, other] = [new OutputCount(budget, first, null), new OutputCount(budget, second, null)];

    assert.equal(one.take(4 * 5_900, 1), 4 * 5_900);
    assert.equal(other.take(4 * 4_500, 1), 4 * 4_096);

    assert.deepEqual([one.breach, other.breach?.limit], [null, "max_output_tokens"]);
    assert.ok(one.tokens + other.tokens <= 10_000);
  });

  test("accepted text and counted tokens stay within the limit", () => {
    const delta = fc.record({ characters: fc.integer({ min: 1, max: 900 }), pieces: fc.integer({ min: 1, max: 90 }) });
    const property = fc.property(
      fc.integer({ min: 1, max: 12_000 }),
      fc.boolean(),
      fc.array(delta, { maxLength: 200 }),
      (limit, isTold, deltas) => {
        const { count, reserved } = counting(limit, isTold ? limit : null);
        let taken = 0;
        for (const { characters, pieces } of deltas) {
          const kept = count.take(characters, Math.min(characters, pieces));
          assert.ok(kept >= 0 && kept <= characters);
          if (kept < characters) assert.notEqual(count.breach, null);
          taken += kept;
        }
        assert.ok(taken <= limit * (isTold ? 8 : 4));
        assert.ok(count.tokens <= limit && reserved.outputTokens <= limit);
        if (count.breach === null) assert.ok(count.tokens >= Math.min(limit, estimatedTokens(taken)));
      },
    );

    fc.assert(property, { numRuns: runs(500), seed: 1 });
  });
});
