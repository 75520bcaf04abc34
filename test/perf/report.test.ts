import assert from "node:assert/strict";
import { test } from "node:test";
import { createContext, Script } from "node:vm";
import { Histogram } from "../../perf/histogram.ts";
import { renderReport } from "../../perf/report.ts";
import type { Results, Row } from "../../perf/results.ts";
import { formatResults, formatTable } from "../../perf/table.ts";
import { findChromium, startBrowser } from "../support/chromium.ts";
import { has } from "../support/needs.ts";
import { cleanup } from "../support/temp.ts";

function row(target: Row["target"], ratioToRelay?: number): Row {
  const histogram = new Histogram();
  for (const value of [1, 2, 3, 50]) histogram.recordMs(value);
  return {
    scenario: "burst",
    title: "the model answers in one piece",
    streams: 64,
    target,
    turnsPerSecond: 1234.5,
    framesPerSecond: 98765,
    tokensPerSecond: 79008,
    ttftP50Ms: 2,
    ttftP99Ms: 50,
    turnP50Ms: 2,
    turnP99Ms: 50,
    errors: target === "svc" ? { timeout: 2, "status 503": 1 } : {},
    rssMib: 131.4,
    cpuSeconds: 2.5,
    cpuPerTurnMicros: 154,
    clientCpuPerTurnMicros: 35,
    ratioToRelay,
    cpuRatioToRelay: undefined,
    cpuRatioToAgainst: target === "svc" ? 1.04 : undefined,
    rateToDirect: undefined,
    ttftOverDirectMs: undefined,
    ttft: histogram.toData(),
    turn: histogram.toData(),
    rounds: [0.099, target === "svc" ? 0.34 : Number.NaN].map((othersShare) => ({
      turnsPerSecond: 1234.5,
      tokensPerSecond: 79008,
      ttftP50Ms: 2,
      cpuPerTurnMicros: 154,
      othersShare,
    })),
  };
}

const results: Results = {
  startedAt: "2026-11-20T20:35:08.222Z",
  seconds: 12,
  machine: {
    processor: "</script><script>alert(1)</script>",
    processors: 2,
    memoryGib: 23,
    system: "Linux 6",
    node: "v22.23.3",
  },
  flush: { p50Ms: 0.34, p99Ms: 0.5, inMemory: false },
  rows: [row("relay"), row("svc", 0.61)],
  memory: {
    atRestMib: 133,
    idle: { streams: 8000, threads: 1000, beforeMib: 150, afterMib: 170, kibPerStream: 2.56, errors: {} },
    live: [{ streams: 1000, beforeMib: 150, duringMib: 250, kibPerTurn: 102.4 }],
  },
  soak: {
    turns: 100_000,
    threads: 1000,
    seconds: 90,
    turnsPerSecond: 1111,
    errors: {},
    quartersMib: [200, 210, 212, 214],
    growth: 214 / 210,
  },
  firstWord: {
    streams: 100,
    outside: [{ target: "direct", ttftP50Ms: 0.2 }],
    variants: ["disk, thread", "disk, no thread", "ram, thread", "ram, no thread"].flatMap((variant) =>
      ["auto", "1"].map((actors) => ({
        variant: `${variant}, actors ${actors}`,
        turns: 80,
        othersShare: 0.25,
        parts: [
          { part: "a part of the way that has a rather long name", p50Ms: 12.25, p90Ms: 150.5 },
          ...(variant === "disk, thread" ? [{ part: "store: <b>", p50Ms: 1, p90Ms: 2 }] : []),
        ],
      })),
    ),
  },
  bodies: {
    streams: 50,
    connections: 2,
    bodyBytes: 2 ** 20,
    seconds: 8,
    answers: { "200": 40, "connection closed": 1 },
    alone: {
      turns: 150,
      ttftP50Ms: 2,
      ttftP99Ms: 8,
      ttftMaxMs: 9.25,
      turnP50Ms: 1270,
      errors: {},
      othersShare: Number.NaN,
    },
    beside: {
      turns: 140,
      ttftP50Ms: 20,
      ttftP99Ms: 80,
      ttftMaxMs: 92.5,
      turnP50Ms: 1290,
      errors: { timeout: 3 },
      othersShare: 0.05,
    },
  },
  rss: [
    { label: "relay, burst", epochMs: [1_795_206_908_422, 1_795_206_908_622], mib: [130, 131] },
    { label: "svc, </script>", epochMs: [1_795_206_908_500], mib: [160.123] },
  ],
  verdicts: [
    { figure: "burst: turns against the relay", unit: "x", value: 0.61, must: 0.5, aim: 0.7, state: "reached" },
  ],
  reattach: [
    {
      streams: 2000,
      threads: 40,
      reads: true,
      whole: 1999,
      bytes: 800_000_000,
      elapsedMs: 4200,
      stallMs: 31,
      healthP99Ms: 20.5,
      healthMaxMs: 33,
      rssMaxMib: 402,
      waitingBytesMax: 17 * 2 ** 20,
    },
  ],
  growth: [{ what: "models", firstMs: 500, p50Ms: 10, p99Ms: 40, stallMs: 12 }],
  waits: {
    runs: 5000,
    beforeMib: 200,
    afterMib: 230,
    kibPerRun: 6.1,
    resumeP50Ms: 9,
    resumeP99Ms: 31,
    resumeMaxMs: 60,
    lost: 0,
  },
  durable: {
    concurrency: 64,
    rows: [
      {
        load: "one model call",
        streams: 64,
        runsPerSecond: 400,
        turnsPerSecond: 700,
        cost: 1.75,
        cpuPerRunMicros: 2500,
        cpuPerTurnMicros: 1500,
        runsPerCpuSecond: 400,
        startP50Ms: 4,
        startP99Ms: 31,
        started: 5000,
        errors: {},
        othersShare: 0.1,
      },
    ],
    wakes: 500,
    wakeP50Ms: 9,
    wakeP99Ms: 31,
    lost: 0,
  },
  failures: ["soak: <b>svc ended</b>"],
};

test("the report needs no other file or network", () => {
  const page = renderReport(results);

  const outside = page.match(/<link|<img|<iframe|<script[^>]+src|@import|url\(|fetch\(|XMLHttpRequest|import\(/g);
  assert.equal(outside, null);
  assert.ok(page.includes("uPlot"));
});

test("a screen of 1,280 pixels shows the report without horizontal scrolling", async (t) => {
  const executable = findChromium();
  if (!has(t, executable !== null, "needs Chromium")) return;
  const page = await startBrowser(executable as string, cleanup(t)).open(cleanup(t));
  await page.send("Emulation.setDeviceMetricsOverride", {
    width: 1280,
    height: 900,
    deviceScaleFactor: 1,
    mobile: false,
  });
  const { frameTree } = await page.send("Page.getFrameTree");

  await page.send("Page.setDocumentContent", { frameId: frameTree.frame.id, html: renderReport(wideResults()) });

  const wide = await page.evaluate(`[document.documentElement, ...document.querySelectorAll("table, figure, p, div")]
    .filter((element) => element.scrollWidth > element.clientWidth || element.getBoundingClientRect().right > 1280)
    .map((element) => element.tagName + " " + element.scrollWidth + " " + element.textContent.slice(0, 60))`);
  const tables = await page.evaluate(`document.querySelectorAll("body > table").length`);
  const charts = await page.evaluate(`document.querySelectorAll("canvas").length`);
  assert.deepEqual(wide, []);
  assert.deepEqual([tables, charts], [5, 3]);
});

/** With numbers as long as they get, and all targets. */
function wideResults(): Results {
  const long = {
    scenario: "paced-2000",
    streams: 2000,
    turnsPerSecond: 29_090.4,
    framesPerSecond: 1_234_567,
    ttftP50Ms: 1234.56,
    ttftP99Ms: 12_345.67,
    turnP50Ms: 1234.56,
    turnP99Ms: 12_345.67,
    cpuPerTurnMicros: 12_345,
    clientCpuPerTurnMicros: 12_345,
    rateToDirect: 0.61,
    rounds: [1, 2, 3].map(() => ({
      turnsPerSecond: 1,
      tokensPerSecond: 64,
      ttftP50Ms: 2,
      cpuPerTurnMicros: 154,
      othersShare: 0.34,
    })),
  };
  const targets = ["direct", "relay", "svc", "svc-node", "svc-against"] as const;
  return { ...results, rows: targets.map((target) => ({ ...row(target, 0.61), ...long })) };
}

test("external text is inert in the report", () => {
  const page = renderReport(results);

  assert.equal(page.match(/<\/script>/g)?.length, 3);
  assert.ok(!page.includes("<script>alert(1)"));
  assert.ok(page.includes("&lt;b&gt;svc ended&lt;/b&gt;"));
});

test("the report's script draws every latency and the memory from the page's data", () => {
  const page = renderReport(results);
  const scripts = [...page.matchAll(/<script(?<kind>[^>]*)>(?<text>[\s\S]*?)<\/script>/g)].map(
    ({ groups }) => groups?.text ?? "",
  );
  const [data = "", library = "", drawing = ""] = scripts;
  const figures = new Set([...page.matchAll(/<figure id="([^"]+)"/g)].map((match) => match[1]));
  const drawn: { title: string; series: number; data: unknown[][]; into: unknown }[] = [];
  class RecordingPlot {
    constructor(options: { title: string; series: unknown[] }, columns: unknown[][], into: unknown) {
      drawn.push({ title: options.title, series: options.series.length, data: columns, into });
    }
    static join(tables: unknown[][][]): unknown[][] {
      return [tables[0]?.[0] ?? [], ...tables.map((table) => table[1] ?? [])];
    }
  }
  const document = {
    getElementById: (id: string) =>
      id === "data" ? { textContent: data } : figures.has(id) ? { id, clientWidth: 500 } : null,
  };

  new Script(drawing).runInContext(
    createContext({ document, uPlot: RecordingPlot, matchMedia: () => ({ matches: false }) }),
  );

  assert.doesNotThrow(() => new Script(library));
  assert.deepEqual(
    drawn.map(({ title, series }) => [title, series]),
    [
      ["ttft burst", 3],
      ["turn burst", 3],
      ["resident memory over the run, MiB", 3],
    ],
  );
  for (const { data: columns, series, into } of drawn) {
    assert.equal(columns.length, series);
    assert.notEqual(into, null);
  }
});

test("the table's numbers are aligned and every part of the results is in it", () => {
  const text = formatResults(results);

  for (const part of [
    "burst",
    "1235",
    "0.61",
    "reached",
    "2.56 KiB",
    "102 KiB",
    "1.9 %",
    "133 MiB",
    "0.34 ms p50",
    "soak: <b>svc",
    "the machine was busy with others: burst 2 svc 34%\n",
    "for comparison direct 0.20",
    "12.25 / 150.50",
    "40 x 200, 1 x connection closed answered in 8 s",
  ]) {
    assert.ok(text.includes(part), part);
  }
  assert.match(text, /^burst +svc .* 3 /m);
  assert.match(text, /2000 to 40, read +1999 +800 +4\.2 +31 +20\.5 +33 +402 +17\.0/);
});

test("columns of numbers are aligned right, words left", () => {
  const text = formatTable(
    ["name", "count"],
    [
      ["a", "5"],
      ["long name", "1234"],
      ["b", ""],
    ],
  );

  assert.deepEqual(text.split("\n"), [
    "name       count",
    "---------  -----",
    "a              5",
    "long name   1234",
    "b",
  ]);
});
