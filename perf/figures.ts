// The required speed and memory of svc. A figure that was not measured has no verdict.

import { type DurableRow, type Results, type Row, sumCounts, type Verdict } from "./results.ts";
import { longThreadScenario, turnScenarios } from "./scenarios.ts";

type Measured = Pick<Results, "rows" | "memory" | "soak"> & Partial<Pick<Results, "growth" | "waits" | "durable">>;

interface Figure {
  readonly figure: string;
  readonly unit: string;
  readonly must: number;
  readonly aim: number;
  readonly atLeast: boolean;
  value(measured: Measured): number | undefined;
}

const figures: readonly Figure[] = [
  atLeast("burst: turns against the relay", "x", 0.5, 0.7, (m) => svcRow(m, "burst")?.ratioToRelay),
  atMost("burst: processor time of a turn against the relay", "x", 2, 1.5, (m) => svcRow(m, "burst")?.cpuRatioToRelay),
  atLeast("trickle: turns against the relay", "x", 0.6, 0.9, (m) => svcRow(m, "trickle")?.ratioToRelay),
  atMost("paced, 20 streams: TTFT p50 over direct", "ms", 1.5, 1, (m) => svcRow(m, "paced-20")?.ttftOverDirectMs),
  atMost("paced, 100 streams: TTFT p50 over direct", "ms", 1.5, 1, (m) => svcRow(m, "paced-100")?.ttftOverDirectMs),
  atLeast("paced, 1,000 streams: rate against direct", "x", 0.95, 0.95, (m) => svcRow(m, "paced-1000")?.rateToDirect),
  atMost("paced, 1,000 streams: errors", "", 0, 0, (m) => errorsOf(svcRow(m, "paced-1000"))),
  atLeast("paced, 2,000 streams: rate against direct", "x", 0.85, 0.85, (m) => svcRow(m, "paced-2000")?.rateToDirect),
  atMost("memory of an idle stream", "KiB", 4, 2, (m) => m.memory.idle?.kibPerStream),
  atMost(
    "memory of a live turn, of 1,000",
    "KiB",
    150,
    110,
    (m) => m.memory.live.find((live) => live.streams === 1000)?.kibPerTurn,
  ),
  atMost("memory at rest", "MiB", 180, 140, (m) => m.memory.atRestMib),
  atMost("soak: last quarter's memory against the second's", "x", 1.1, 1.1, (m) => m.soak?.growth),
  atMost("growth: search for a rare word, p50", "ms", 20, 20, (m) => growthRow(m, "search for a rare word")),
  atMost("growth: usage summary, p50", "ms", 50, 50, (m) => growthRow(m, "usage summary")),
  atMost("growth: models, p50", "ms", 300, 300, (m) => growthRow(m, "models")),
  atMost("longthread: turns under windowed:24, long against short", "x", 1.5, 1.2, (m) => longTurn(m, "windowed:24")),
  atMost("longthread: turns under compacting, long against short", "x", 1.5, 1.2, (m) => longTurn(m, "compacting")),
  atMost("waits: answer to result, p99", "ms", 100, 100, (m) => m.waits?.resumeP99Ms),
  atMost("waits: memory of a run that waits, with its stream", "KiB", 8, 8, (m) => m.waits?.kibPerRun),
  atMost("waits: runs that did not go on", "", 0, 0, (m) => m.waits?.lost),
  ...turnScenarios.map(({ name }) =>
    atMost(`${name}: processor time of a turn against the other checkout`, "x", 1.05, 1, (m) => {
      return svcRow(m, name)?.cpuRatioToAgainst;
    }),
  ),
  atLeast("durable: runs a second of one processor", "", 20, 200, (m) => durableRow(m)?.runsPerCpuSecond),
  atMost("durable: turns for one run, one model call", "x", 2, 1.5, (m) => durableRow(m)?.cost),
  atMost("durable: turns for one run, three tool steps", "x", 2, 1.5, (m) => durableRow(m, 1)?.cost),
  atMost("durable: acceptance to first step, paced, p50", "ms", 20, 20, (m) => durableRow(m, 2)?.startP50Ms),
  atMost("durable: acceptance to first step, paced, p99", "ms", 200, 200, (m) => durableRow(m, 2)?.startP99Ms),
  atMost("durable: answer to result, p99", "ms", 100, 100, (m) => m.durable?.wakeP99Ms),
  atMost("durable: runs that did not go on", "", 0, 0, (m) => m.durable?.lost),
];

/** Returns the verdicts of the measured figures. */
export function judge(measured: Measured): Verdict[] {
  const verdicts: Verdict[] = [];
  for (const { figure, unit, must, aim, atLeast, value } of figures) {
    const found = value(measured);
    if (found === undefined || Number.isNaN(found)) continue;
    const reaches = (limit: number) => (atLeast ? found >= limit : found <= limit);
    const state = reaches(aim) ? "aim reached" : reaches(must) ? "reached" : "MISSED";
    verdicts.push({ figure, unit, value: found, must, aim, state });
  }
  return verdicts;
}

function atLeast(figure: string, unit: string, must: number, aim: number, value: Figure["value"]): Figure {
  return { figure, unit, must, aim, atLeast: true, value };
}

function atMost(figure: string, unit: string, must: number, aim: number, value: Figure["value"]): Figure {
  return { figure, unit, must, aim, atLeast: false, value };
}

function svcRow(measured: Measured, scenario: string): Row | undefined {
  return measured.rows.find((row) => row.scenario === scenario && row.target === "svc");
}

function durableRow(measured: Measured, at = 0): DurableRow | undefined {
  return measured.durable?.rows[at];
}

function growthRow(measured: Measured, what: string): number | undefined {
  return measured.growth?.find((row) => row.what === what)?.p50Ms;
}

/** The time of a turn on a long thread divided by that on a short one. */
function longTurn(measured: Measured, strategy: string): number | undefined {
  const [short = Number.NaN, long = Number.NaN] = longThreadScenario.lengths.map((events) =>
    growthRow(measured, `${strategy}, a turn behind ${events} events`),
  );
  return long / short;
}

function errorsOf(row: Row | undefined): number | undefined {
  return row && sumCounts(row.errors);
}
