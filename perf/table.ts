import { busyShare } from "./machine-load.ts";
import {
  type BodiesResult,
  type DurableResult,
  type FirstWordResult,
  type GrowthRow,
  type ReattachResult,
  type Results,
  type Row,
  sumCounts,
  type WaitsResult,
} from "./results.ts";

/** Formats the results as text for a terminal. */
export function formatResults(results: Results): string {
  const { machine, flush } = results;
  const disk = `${flush.p50Ms.toFixed(2)} ms p50, ${flush.p99Ms.toFixed(2)} ms p99${flush.inMemory ? " (in memory, no disk)" : ""}`;
  const parts = [
    `${machine.processors} x ${machine.processor}, ${machine.system}, Node ${machine.node}; disk flush ${disk}`,
  ];
  if (results.rows.length > 0) parts.push(formatTable(rowHeads, results.rows.map(cellsOf)));
  const busy = busyRounds(results.rows);
  if (busy.length > 0) parts.push(`the machine was busy with others: ${busy.join(", ")}`);
  const { firstWord, bodies } = results;
  if (firstWord !== undefined) {
    const { heads, rows } = firstWordTable(firstWord);
    parts.push(`${firstWordTitle(firstWord)}\n\n${formatTable(heads, rows)}`);
  }
  if (bodies !== undefined) {
    const { heads, rows } = bodiesTable(bodies);
    parts.push(`${bodiesTitle(bodies)}\n\n${formatTable(heads, rows)}`);
  }
  const memory = memoryRows(results);
  if (memory.length > 0) parts.push(formatTable(["memory", "value", "how"], memory));
  if (results.growth.length > 0) parts.push(formatTable(growthHeads, results.growth.map(growthCells)));
  if (results.waits !== undefined) parts.push(formatTable(waitsHeads, [waitsCells(results.waits)]));
  if (results.durable !== undefined) parts.push(formatTable(durableHeads, durableRows(results.durable)));
  if (results.reattach.length > 0) parts.push(formatTable(reattachHeads, results.reattach.map(reattachCells)));
  if (results.verdicts.length > 0) {
    const verdicts = results.verdicts.map(({ figure, unit, value, must, aim, state }) => [
      figure,
      `${value.toFixed(2)} ${unit}`.trim(),
      String(must),
      String(aim),
      state,
    ]);
    parts.push(formatTable(["figure", "found", "must", "aim", ""], verdicts));
  }
  for (const failure of results.failures) parts.push(`not measured: ${failure}`);
  return `${parts.join("\n\n")}\n`;
}

const growthHeads = ["growth", "first ms", "p50 ms", "p99 ms", "longest stall ms"];

const waitsHeads = ["waits", "p50 ms", "p99 ms", "longest ms", "KiB each", "lost"];

function waitsCells({ runs, resumeP50Ms, resumeP99Ms, resumeMaxMs, kibPerRun, lost }: WaitsResult): string[] {
  const times = [resumeP50Ms, resumeP99Ms, resumeMaxMs].map((ms) => ms.toFixed(1));
  return [`${runs} runs`, ...times, kibPerRun.toFixed(2), String(lost)];
}

const durableHeads = [
  "durable",
  "runs/s",
  "turns/s",
  "cost",
  "us a run",
  "us a turn",
  "start p50",
  "start p99",
  "errors",
];

function durableRows({ rows, wakes, wakeP50Ms, wakeP99Ms, lost }: DurableResult): string[][] {
  const found = rows.map((row) => [
    `${row.load}, ${row.streams} streams`,
    ...[row.runsPerSecond, row.turnsPerSecond].map((each) => each.toFixed(0)),
    row.cost.toFixed(2),
    ...[row.cpuPerRunMicros, row.cpuPerTurnMicros].map((micros) => micros.toFixed(0)),
    ...[row.startP50Ms, row.startP99Ms].map((ms) => ms.toFixed(0)),
    String(sumCounts(row.errors)),
  ]);
  const wake = `${wakes} wakes: ${wakeP50Ms.toFixed(1)} ms p50, ${wakeP99Ms.toFixed(1)} ms p99`;
  return [...found, [wake, "", "", "", "", "", "", "", String(lost)]];
}

function growthCells({ what, firstMs, p50Ms, p99Ms, stallMs }: GrowthRow): string[] {
  return [what, ...[firstMs, p50Ms, p99Ms, stallMs].map((ms) => ms.toFixed(1))];
}

const reattachHeads = [
  "reattach",
  "whole",
  "MB",
  "seconds",
  "stall ms",
  "/health p99",
  "max ms",
  "RSS MiB",
  "waiting MiB",
];

function reattachCells(crowd: ReattachResult): string[] {
  return [
    `${crowd.streams} to ${crowd.threads}, ${crowd.reads ? "read" : "do not read"}`,
    String(crowd.whole),
    (crowd.bytes / 1e6).toFixed(0),
    (crowd.elapsedMs / 1000).toFixed(1),
    crowd.stallMs.toFixed(0),
    crowd.healthP99Ms.toFixed(1),
    crowd.healthMaxMs.toFixed(0),
    crowd.rssMaxMib.toFixed(0),
    (crowd.waitingBytesMax / 2 ** 20).toFixed(1),
  ];
}

const rowHeads = [
  "scenario",
  "target",
  "turns/s",
  "frames/s",
  "TTFT p50",
  "p99 ms",
  "turn p50",
  "p99 ms",
  "errors",
  "RSS MiB",
  "CPU s",
  "us/turn",
  "to relay",
  "to direct",
  "CPU to against",
];

function cellsOf(row: Row): string[] {
  return [
    row.scenario,
    row.target,
    row.turnsPerSecond.toFixed(0),
    row.framesPerSecond.toFixed(0),
    row.ttftP50Ms.toFixed(2),
    row.ttftP99Ms.toFixed(2),
    row.turnP50Ms.toFixed(2),
    row.turnP99Ms.toFixed(2),
    String(sumCounts(row.errors)),
    row.rssMib.toFixed(0),
    row.cpuSeconds.toFixed(2),
    row.cpuPerTurnMicros.toFixed(0),
    row.ratioToRelay === undefined ? "" : row.ratioToRelay.toFixed(2),
    row.rateToDirect === undefined ? "" : row.rateToDirect.toFixed(2),
    row.cpuRatioToAgainst === undefined ? "" : row.cpuRatioToAgainst.toFixed(2),
  ];
}

/** Lists the rounds in which other processes used so much of the machine that the figures are doubtful. */
export function busyRounds(rows: readonly Row[]): string[] {
  return rows.flatMap(({ scenario, target, rounds }) =>
    rounds.flatMap(({ othersShare }, round) =>
      othersShare >= busyShare ? [`${scenario} ${round + 1} ${target} ${percent(othersShare)}`] : [],
    ),
  );
}

/** The heads and the cells of a table. */
export interface Cells {
  readonly heads: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

export function firstWordTitle({ streams, outside }: FirstWordResult): string {
  const others = outside.map(({ target, ttftP50Ms }) => `${target} ${ttftP50Ms.toFixed(2)}`).join(", ");
  return `the way to the first word at ${streams} paced streams, ms, median / p90${others && `; for comparison ${others}`}`;
}

/** A table with a row for each wait and a column for each variant. */
export function firstWordTable({ variants }: FirstWordResult): Cells {
  const parts = [...new Set(variants.flatMap((variant) => variant.parts.map(({ part }) => part)))];
  const cellOf = (part: string, { parts: found }: FirstWordResult["variants"][number]) => {
    const one = found.find((candidate) => candidate.part === part);
    return one === undefined ? "" : `${one.p50Ms.toFixed(2)} / ${one.p90Ms.toFixed(2)}`;
  };
  return {
    heads: ["part", ...variants.map(({ variant }) => variant)],
    rows: [
      ...parts.map((part) => [part, ...variants.map((variant) => cellOf(part, variant))]),
      ["turns", ...variants.map(({ turns }) => String(turns))],
      ["machine busy with others", ...variants.map(({ othersShare }) => percent(othersShare))],
    ],
  };
}

export function bodiesTitle({ streams, connections, bodyBytes, seconds, answers }: BodiesResult): string {
  const sent = Object.entries(answers).map(([answer, count]) => `${count} x ${answer}`);
  const mib = (bodyBytes / 2 ** 20).toFixed(0);
  return `${streams} paced streams beside ${connections} connections with ${mib} MiB bodies of keys, ${sent.join(", ") || "none"} answered in ${seconds.toFixed(0)} s`;
}

export function bodiesTable({ alone, beside }: BodiesResult): Cells {
  const heads = [
    "other tenants",
    "turns",
    "TTFT p50 ms",
    "p99",
    "max",
    "turn p50 ms",
    "errors",
    "machine busy with others",
  ];
  const rows = Object.entries({ alone, beside }).map(([name, found]) => [
    name,
    String(found.turns),
    found.ttftP50Ms.toFixed(2),
    found.ttftP99Ms.toFixed(2),
    found.ttftMaxMs.toFixed(2),
    found.turnP50Ms.toFixed(2),
    String(sumCounts(found.errors)),
    percent(found.othersShare),
  ]);
  return { heads, rows };
}

function percent(share: number): string {
  return Number.isNaN(share) ? "" : `${(share * 100).toFixed(0)}%`;
}

/** Memory figures as `[what, value, how it was found]`. */
export function memoryRows({ memory, soak }: Pick<Results, "memory" | "soak">): string[][] {
  const rows: string[][] = [];
  if (memory.atRestMib !== undefined)
    rows.push(["at rest", `${memory.atRestMib.toFixed(0)} MiB`, "after /ready, settled"]);
  if (memory.idle !== undefined) {
    const { streams, threads, beforeMib, afterMib, kibPerStream, errors } = memory.idle;
    const failed = sumCounts(errors);
    rows.push([
      "idle stream",
      `${kibPerStream.toFixed(2)} KiB`,
      `${streams} over ${threads} threads, ${beforeMib.toFixed(0)} to ${afterMib.toFixed(0)} MiB, ${failed} failed`,
    ]);
  }
  for (const { streams, beforeMib, duringMib, kibPerTurn } of memory.live) {
    rows.push([
      "live turn",
      `${kibPerTurn.toFixed(0)} KiB`,
      `${streams} paced turns, ${beforeMib.toFixed(0)} to ${duringMib.toFixed(0)} MiB`,
    ]);
  }
  if (soak !== undefined) {
    const quarters = soak.quartersMib.map((mib) => mib.toFixed(0)).join(", ");
    rows.push([
      "soak",
      `${((soak.growth - 1) * 100).toFixed(1)} %`,
      `${soak.turns} turns over ${soak.threads} threads in ${soak.seconds.toFixed(0)} s, ${sumCounts(soak.errors)} errors; quarters ${quarters} MiB`,
    ]);
  }
  return rows;
}

/** Formats a table as text, with numbers aligned to the right. */
export function formatTable(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = heads.map((head, column) => Math.max(head.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const numeric = heads.map(
    (_, column) => rows.length > 0 && rows.every((row) => /^[\d.,-]*$|^NaN$/.test(row[column] ?? "")),
  );
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => (numeric[column] ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0)))
      .join("  ")
      .trimEnd();
  return [line(heads), widths.map((width) => "-".repeat(width)).join("  "), ...rows.map(line)].join("\n");
}
