import assert from "node:assert/strict";
import { test } from "node:test";
import { judge } from "../../perf/figures.ts";
import { median, type Results, type Row } from "../../perf/results.ts";
import { quarterEdges } from "../../perf/soak-scenario.ts";

const nothing: Pick<Results, "rows" | "memory" | "soak"> = { rows: [], memory: { live: [] }, soak: undefined };

function svcRow(scenario: string, found: Partial<Row>): Row {
  return { scenario, target: "svc", errors: {}, ...found } as Row;
}

test("growth is judged by its median", () => {
  const growth = [{ what: "models", firstMs: 900, p50Ms: 301, p99Ms: 400, stallMs: 1 }];

  const verdicts = judge({ ...nothing, growth });

  assert.deepEqual(
    verdicts.map(({ value, state }) => [value, state]),
    [[301, "MISSED"]],
  );
});

test("a missing figure is not judged", () => {
  assert.deepEqual(judge(nothing), []);
  assert.deepEqual(judge({ ...nothing, rows: [svcRow("burst", {})] }), []);
  assert.deepEqual(judge({ ...nothing, memory: { live: [], atRestMib: Number.NaN } }), []);
});

for (const [ratio, state] of [
  [0.7, "aim reached"],
  [0.699, "reached"],
  [0.5, "reached"],
  [0.499, "MISSED"],
] as const) {
  test(`a rate of ${ratio} of the relay's: ${state}`, () => {
    const verdicts = judge({ ...nothing, rows: [svcRow("burst", { ratioToRelay: ratio })] });

    assert.deepEqual(
      verdicts.map((verdict) => verdict.state),
      [state],
    );
  });
}

for (const [ratio, state] of [
  [1, "aim reached"],
  [1.05, "reached"],
  [1.051, "MISSED"],
] as const) {
  test(`${ratio} of another checkout's processor time: ${state}`, () => {
    const verdicts = judge({ ...nothing, rows: [svcRow("tools", { cpuRatioToAgainst: ratio })] });

    assert.deepEqual(
      verdicts.map((verdict) => [verdict.figure, verdict.state]),
      [["tools: processor time of a turn against the other checkout", state]],
    );
  });
}

for (const [mib, state] of [
  [140, "aim reached"],
  [180, "reached"],
  [180.1, "MISSED"],
] as const) {
  test(`${mib} MiB at rest: ${state}`, () => {
    const verdicts = judge({ ...nothing, memory: { live: [], atRestMib: mib } });

    assert.deepEqual(
      verdicts.map((verdict) => verdict.state),
      [state],
    );
  });
}

test("one error among a thousand streams fails the goal", () => {
  const verdicts = judge({ ...nothing, rows: [svcRow("paced-1000", { errors: { timeout: 1 }, rateToDirect: 1 })] });

  assert.deepEqual(
    verdicts.map(({ state }) => state),
    ["aim reached", "MISSED"],
  );
});

test("live memory is judged at 1,000 streams only", () => {
  const live = (streams: number) => ({ streams, beforeMib: 0, duringMib: 0, kibPerTurn: 1000 });

  assert.deepEqual(judge({ ...nothing, memory: { live: [live(2000)] } }), []);
  assert.equal(judge({ ...nothing, memory: { live: [live(1000)] } })[0]?.state, "MISSED");
});

test("the median of an even number is the mean of the middle two, without NaN", () => {
  assert.equal(median([5, 1, 9]), 5);
  assert.equal(median([4, 1, 9, Number.NaN, 2]), 3);
  assert.ok(Number.isNaN(median([])));
});

test("quarters of a soak are by turns, not by time", () => {
  // The first half of the turns takes one second, the second half three.
  const progress = [1000, 50, 2000, 75, 3000, 90, 4000, 100];

  const edges = quarterEdges({ progress, turnsWithRamp: 100, windowFromEpochMs: 0 });

  assert.deepEqual(edges, [0, 500, 1000, 2000, 4000]);
});
