import { readFileSync } from "node:fs";
import { Histogram, type HistogramData } from "./histogram.ts";
import type { TargetName } from "./options.ts";
import { type Results, type Row, sumCounts } from "./results.ts";
import {
  bodiesTable,
  bodiesTitle,
  busyRounds,
  type Cells,
  firstWordTable,
  firstWordTitle,
  memoryRows,
} from "./table.ts";

/** The quantiles of a drawn distribution, denser towards the slow end. */
const shares = [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999];

/** The data for the page's script. */
interface ChartData {
  readonly latency: readonly {
    readonly element: string;
    readonly shares: readonly number[];
    readonly lines: readonly Line[];
  }[];
  readonly memory: readonly {
    readonly label: string;
    readonly seconds: readonly number[];
    readonly mib: readonly number[];
  }[];
}

interface Line {
  readonly target: TargetName;
  readonly milliseconds: readonly number[];
}

/** Renders the results as a self-contained HTML page with style, chart code and data. */
export function renderReport(results: Results): string {
  const scenarios = [...new Set(results.rows.map((row) => row.scenario))];
  const uplot = new URL(import.meta.resolve("uplot/dist/uPlot.iife.min.js"));
  const uplotStyle = new URL(import.meta.resolve("uplot/dist/uPlot.min.css"));
  const charts = chartData(results, scenarios);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>svc performance, ${escapeHtml(results.startedAt)}</title>
<style>
${readFileSync(uplotStyle, "utf8")}
${readFileSync(new URL("./report-page.css", import.meta.url), "utf8")}
</style>
</head>
<body>
<h1>svc performance</h1>
${renderIntroduction(results)}
${renderVerdicts(results)}
<h2>Turns</h2>
${renderRows(results.rows)}
${renderBusy(results.rows)}
${renderFirstWord(results.firstWord)}
${renderBodies(results.bodies)}
<h2>Speed and processor time</h2>
${scenarios.map((scenario) => renderBars(results.rows.filter((row) => row.scenario === scenario))).join("\n")}
<h2>Latency</h2>
<p>Milliseconds that a share of the turns stayed within; the scale stretches towards the slowest.</p>
<div class="charts">
${charts.latency.map(({ element }) => `<figure id="${element}"></figure>`).join("\n")}
</div>
<h2>Memory</h2>
${renderTable({ heads: ["what", "value", "how"], rows: memoryRows(results) })}
<figure id="memory" class="wide"></figure>
<script type="application/json" id="data">${JSON.stringify(charts).replaceAll("<", "\\u003c")}</script>
<script>${readFileSync(uplot, "utf8")}</script>
<script>${readFileSync(new URL("./report-page.js", import.meta.url), "utf8")}</script>
</body>
</html>
`;
}

function chartData(results: Results, scenarios: readonly string[]): ChartData {
  const startMs = Date.parse(results.startedAt);
  const latency = scenarios.flatMap((scenario) => {
    const rows = results.rows.filter((row) => row.scenario === scenario);
    const lines = (of: (row: Row) => HistogramData) =>
      rows.map((row) => {
        const histogram = Histogram.from(of(row));
        return { target: row.target, milliseconds: shares.map((share) => histogram.quantileMs(share)) };
      });
    return [
      { element: `ttft ${scenario}`, shares, lines: lines((row) => row.ttft) },
      { element: `turn ${scenario}`, shares, lines: lines((row) => row.turn) },
    ];
  });
  const memory = results.rss.map(({ label, epochMs, mib }) => ({
    label,
    seconds: epochMs.map((at) => Math.round((at - startMs) / 100) / 10),
    mib: mib.map((value) => Math.round(value * 10) / 10),
  }));
  return { latency, memory };
}

function renderIntroduction({ startedAt, seconds, machine, flush, failures }: Results): string {
  const disk = flush.inMemory
    ? "The data directory is in memory, so these figures do not include a disk."
    : `The disk takes ${flush.p50Ms.toFixed(2)} ms (p50) and ${flush.p99Ms.toFixed(2)} ms (p99) to flush.`;
  const sentences = [
    `${startedAt}, ${seconds.toFixed(0)} seconds on ${machine.processors} x ${machine.processor}, ${machine.memoryGib} GiB, ${machine.system}, Node ${machine.node}.`,
    disk,
  ];
  const missing = failures.map((failure) => `<p class="missed">Not measured: ${escapeHtml(failure)}</p>`);
  return `<p>${escapeHtml(sentences.join(" "))}</p>${missing.join("")}`;
}

function renderVerdicts({ verdicts }: Results): string {
  if (verdicts.length === 0) return "";
  const rows = verdicts.map(({ figure, unit, value, must, aim, state }) => {
    const cells = [figure, `${value.toFixed(2)} ${unit}`, String(must), String(aim), state].map(cellOf);
    return `<tr class="${state === "MISSED" ? "missed" : "reached"}">${cells.join("")}</tr>`;
  });
  return `<h2>Figures to reach</h2>\n<table><tr><th>figure<th>found<th>must<th>aim<th></tr>\n${rows.join("\n")}</table>`;
}

function renderRows(rows: readonly Row[]): string {
  const heads = [
    "scenario",
    "target",
    "streams",
    "turns/s",
    "frames/s",
    "TTFT p50 ms",
    "p99",
    "turn p50 ms",
    "p99",
    "errors",
    "RSS MiB",
    "CPU s",
    "CPU us/turn",
    "client us/turn",
    "to relay",
    "to direct",
    "CPU to against",
  ];
  const cells = rows.map((row) => [
    row.scenario,
    row.target,
    String(row.streams),
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
    row.clientCpuPerTurnMicros.toFixed(0),
    row.ratioToRelay?.toFixed(2) ?? "",
    row.rateToDirect?.toFixed(2) ?? "",
    row.cpuRatioToAgainst?.toFixed(2) ?? "",
  ]);
  return renderTable({ heads, rows: cells });
}

function renderBusy(rows: readonly Row[]): string {
  const rounds = busyRounds(rows);
  if (rounds.length === 0) return "";
  return `<p class="missed">The machine was busy with others: ${escapeHtml(rounds.join(", "))}.</p>`;
}

function renderFirstWord(found: Results["firstWord"]): string {
  if (found === undefined) return "";
  return `<h2>To the first word</h2>\n<p>${escapeHtml(sentence(firstWordTitle(found)))}</p>\n${renderTable(firstWordTable(found))}`;
}

function renderBodies(found: Results["bodies"]): string {
  if (found === undefined) return "";
  return `<h2>Beside large bodies</h2>\n<p>${escapeHtml(sentence(bodiesTitle(found)))}</p>\n${renderTable(bodiesTable(found))}`;
}

function sentence(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;
}

function renderBars(rows: readonly Row[]): string {
  const [first] = rows;
  if (first === undefined) return "";
  const bars = (name: string, value: (row: Row) => number) => {
    const most = Math.max(...rows.map(value).filter(Number.isFinite));
    const lines = rows.map((row) => {
      const share = Number.isFinite(value(row)) ? (value(row) / most) * 100 : 0;
      return `<div class="bar"><span>${row.target}</span><i class="${row.target}" style="width:${share.toFixed(1)}%"></i><b>${value(row).toFixed(0)}</b></div>`;
    });
    return `<div><h4>${name}</h4>${lines.join("")}</div>`;
  };
  const heading = `<h3>${escapeHtml(first.scenario)}: ${escapeHtml(first.title)}, ${first.streams} streams</h3>`;
  return `${heading}<div class="bars">${bars("turns a second", (row) => row.turnsPerSecond)}${bars("processor microseconds a turn", (row) => row.cpuPerTurnMicros)}</div>`;
}

function renderTable({ heads, rows }: Cells): string {
  const head = heads.map((text) => `<th>${escapeHtml(text)}</th>`).join("");
  return `<table><tr>${head}</tr>\n${rows.map((row) => `<tr>${row.map(cellOf).join("")}</tr>`).join("\n")}</table>`;
}

function cellOf(text: string): string {
  return `<td>${escapeHtml(text)}</td>`;
}

function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
