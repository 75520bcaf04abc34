import { type BackToBackResult, runBackToBack } from "./back-to-back.ts";
import { Histogram } from "./histogram.ts";
import { headOf, type Lab, type Target } from "./lab.ts";
import { othersShare, readLoad } from "./machine-load.ts";
import { readCpuMs } from "./process-stats.ts";
import { addCounts, type DurableResult, type DurableRow, median } from "./results.ts";
import { durableScenario } from "./scenarios.ts";
import { answer, open } from "./waits-scenario.ts";

interface Measured extends BackToBackResult {
  readonly cpuMs: number;
}

/**
 * Measures durable runs against turns of the same work on the same server, in alternating rounds. Also measures the latency from acceptance
 * to the first step, and from an answer to the resumption.
 */
export async function runDurableScenario(lab: Lab): Promise<DurableResult | undefined> {
  const { concurrency, loads } = durableScenario;
  const env = { SVC_FIBER_CONCURRENCY: String(concurrency), ...lab.options.env };
  const targets = await lab.startTargets(["svc"], durableScenario.name, { env });
  try {
    const [svc] = targets.list;
    if (svc === undefined) return undefined;
    const rows: DurableRow[] = [];
    for (const load of loads) rows.push(await runLoad(lab, svc, load));
    const wake = await measureWake(lab, svc);
    svc.assertAlive();
    return { concurrency, rows, ...wake };
  } finally {
    await targets.stop();
  }
}

async function runLoad(lab: Lab, svc: Target, load: (typeof durableScenario.loads)[number]): Promise<DurableRow> {
  const { options } = lab;
  const streams = Math.min(options.streams ?? durableScenario.concurrency, durableScenario.concurrency);
  const secondsMax = options.seconds ?? durableScenario.secondsMax;
  const turnsMax = options.turns ?? Number.POSITIVE_INFINITY;
  const head = headOf(svc);
  let made = 0;
  const run = async (manifest: string, seconds: number): Promise<Measured> => {
    const prefix = `d${++made}-${load.name}`;
    const cpuMs = -readCpuMs(svc.pids);
    const job = { port: svc.port, head, manifest, prefix, streams, secondsMax: seconds, turnsMax };
    const result = await runBackToBack(job);
    return { ...result, cpuMs: cpuMs + readCpuMs(svc.pids) };
  };
  if (options.warmUp > 0)
    for (const manifest of [load.transient, load.durable]) await run(manifest, options.warmUp / loadsOfWarmUp);
  const measuredFrom = Date.now();
  const [turns, runs]: [Measured[], Measured[]] = [[], []];
  const before = readLoad();
  for (let round = 1; round <= (options.rounds ?? durableScenario.rounds); round++) {
    turns.push(await run(load.transient, secondsMax));
    runs.push(await run(load.durable, secondsMax));
    const [turn, durable] = [turns.at(-1), runs.at(-1)] as [Measured, Measured];
    lab.note(
      `durable ${round} ${load.name}: ${perSecond(durable).toFixed(0)} runs/s, ${perSecond(turn).toFixed(0)} turns/s, ${JSON.stringify({ ...durable.errors, ...turn.errors })}`,
    );
  }
  const start = await startLatency(svc, load.durable, measuredFrom);
  const errors: Record<string, number> = {};
  for (const each of [...turns, ...runs]) addCounts(errors, each.errors);
  const runsPerSecond = median(runs.map(perSecond));
  const turnsPerSecond = median(turns.map(perSecond));
  return {
    load: load.name,
    streams,
    runsPerSecond,
    turnsPerSecond,
    cost: turnsPerSecond / runsPerSecond,
    cpuPerRunMicros: median(runs.map(cpuEach)),
    cpuPerTurnMicros: median(turns.map(cpuEach)),
    runsPerCpuSecond: 1_000_000 / median(runs.map(cpuEach)),
    startP50Ms: start.quantileMs(0.5),
    startP99Ms: start.quantileMs(0.99),
    started: start.count,
    errors,
    othersShare: othersShare(before, readLoad()),
  };
}

/** Number of kinds of turns that share the warm-up time. */
const loadsOfWarmUp = 2;
const pageRuns = 200;
/** Max runs whose start latency is read; the newest ones. */
const startsMax = 5_000;

/** The time from acceptance to the first step of each run, from the stored times. */
async function startLatency(svc: Target, manifest: string, sinceMs: number): Promise<Histogram> {
  const histogram = new Histogram();
  let cursor: string | null = null;
  do {
    const query: string = `limit=${pageRuns}${cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`}`;
    const response = await fetch(`http://127.0.0.1:${svc.port}/runs?${query}`, { headers: svc.headers });
    const page = (await response.json()) as { items: ListedRun[]; next_cursor: string | null };
    const measured = page.items.filter((run) => run.accepted_at >= sinceMs);
    for (const { manifest_id, accepted_at, begun_at } of measured)
      if (manifest_id === manifest && begun_at !== null) histogram.recordMs(Math.max(0, begun_at - accepted_at));
    cursor = measured.length < page.items.length ? null : page.next_cursor;
  } while (cursor !== null && histogram.count < startsMax);
  return histogram;
}

interface ListedRun {
  readonly manifest_id: string;
  readonly accepted_at: number;
  readonly begun_at: number | null;
}

/** The time from a client's answer to the result in the log, for waiting runs. */
async function measureWake(lab: Lab, svc: Target) {
  const { wakes, answersPerSecond, waits } = durableScenario;
  const count = Math.min(lab.options.streams ?? wakes, wakes);
  const { histogram, lost } = await answer(svc, await open(svc, "wake", count, waits), answersPerSecond);
  const [wakeP50Ms, wakeP99Ms] = [histogram.quantileMs(0.5), histogram.quantileMs(0.99)];
  lab.note(`durable: ${count} wakes, ${wakeP50Ms.toFixed(1)} ms p50, ${wakeP99Ms.toFixed(1)} ms p99, ${lost} lost`);
  return { wakes: count, wakeP50Ms, wakeP99Ms, lost };
}

function perSecond({ turns, windowMs }: BackToBackResult): number {
  return (turns * 1000) / windowMs;
}

function cpuEach({ cpuMs, turns }: Measured): number {
  return (cpuMs * 1000) / turns;
}
