import { type Results, type Row, sumCounts } from "./results.ts";

/** The results as text for a terminal. */
export function formatResults(results: Results): string {
  const { machine, flush } = results;
  const disk = `${flush.p50Ms.toFixed(2)} ms p50, ${flush.p99Ms.toFixed(2)} ms p99${flush.inMemory ? " (in memory, no disk)" : ""}`;
  const parts = [
    `${machine.processors} x ${machine.processor}, ${machine.system}, Node ${machine.node}; disk flush ${disk}`,
  ];
  if (results.rows.length > 0) parts.push(formatTable(rowHeads, results.rows.map(cellsOf)));
  const memory = memoryRows(results);
  if (memory.length > 0) parts.push(formatTable(["memory", "value", "how"], memory));
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
  ];
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

/** Text columns: those of numbers to the right. */
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
