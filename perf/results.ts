import type { FlushLatency } from "./disk.ts";
import type { HistogramData } from "./histogram.ts";
import type { TargetName } from "./options.ts";
import type { RssSeries } from "./sampler.ts";

/** All results of one call of the harness, in the format of the JSON file. */
export interface Results {
  readonly startedAt: string;
  readonly seconds: number;
  readonly machine: Machine;
  readonly flush: FlushLatency;
  readonly rows: readonly Row[];
  readonly memory: MemoryResult;
  readonly soak: SoakResult | undefined;
  readonly firstWord: FirstWordResult | undefined;
  readonly bodies: BodiesResult | undefined;
  readonly growth: readonly GrowthRow[];
  readonly reattach: readonly ReattachResult[];
  readonly waits: WaitsResult | undefined;
  readonly durable: DurableResult | undefined;
  readonly rss: readonly RssSeries[];
  readonly verdicts: readonly Verdict[];
  /** Measurements that failed, with their reasons. */
  readonly failures: readonly string[];
}

export interface Machine {
  readonly processor: string;
  readonly processors: number;
  readonly memoryGib: number;
  readonly system: string;
  readonly node: string;
}

/** One scenario on one target: medians of its runs. */
export interface Row {
  readonly scenario: string;
  readonly title: string;
  readonly streams: number;
  readonly target: TargetName;
  readonly turnsPerSecond: number;
  readonly framesPerSecond: number;
  readonly tokensPerSecond: number;
  readonly ttftP50Ms: number;
  readonly ttftP99Ms: number;
  readonly turnP50Ms: number;
  readonly turnP99Ms: number;
  /** Counts by kind of error, over all runs. */
  readonly errors: Readonly<Record<string, number>>;
  readonly rssMib: number;
  readonly cpuSeconds: number;
  readonly cpuPerTurnMicros: number;
  readonly clientCpuPerTurnMicros: number;
  /** Turns per second divided by the relay's; undefined if the relay did not run. */
  readonly ratioToRelay: number | undefined;
  /** CPU time of a turn divided by the relay's. */
  readonly cpuRatioToRelay: number | undefined;
  /** CPU time of a turn divided by the other checkout's: the median over rounds, which alternate between the two. */
  readonly cpuRatioToAgainst: number | undefined;
  /** Tokens per second divided by those of direct calls to the mock. */
  readonly rateToDirect: number | undefined;
  /** Median over rounds of the difference to direct calls, at p50. */
  readonly ttftOverDirectMs: number | undefined;
  /** Over all runs. */
  readonly ttft: HistogramData;
  readonly turn: HistogramData;
  readonly rounds: readonly {
    readonly turnsPerSecond: number;
    readonly tokensPerSecond: number;
    readonly ttftP50Ms: number;
    readonly cpuPerTurnMicros: number;
    /** The share of the machine that other processes used, from 0 to 1. */
    readonly othersShare: number;
  }[];
}

export interface MemoryResult {
  /** Memory of svc after it became ready. */
  readonly atRestMib?: number;
  readonly idle?: {
    readonly streams: number;
    readonly threads: number;
    readonly beforeMib: number;
    readonly afterMib: number;
    readonly kibPerStream: number;
    readonly errors: Readonly<Record<string, number>>;
  };
  /** Memory of a live turn in the paced scenarios, by number of streams. */
  readonly live: readonly {
    readonly streams: number;
    readonly beforeMib: number;
    readonly duringMib: number;
    readonly kibPerTurn: number;
  }[];
}

/** Times of one kind of request on a large database. */
export interface GrowthRow {
  readonly what: string;
  /** The first request after the start. */
  readonly firstMs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** The longest response time of a concurrent GET /health. */
  readonly stallMs: number;
}

/** Times and memory of one crowd that reattached at once. */
export interface ReattachResult {
  readonly streams: number;
  readonly threads: number;
  readonly reads: boolean;
  /** Streams that have received a complete snapshot. */
  readonly whole: number;
  readonly bytes: number;
  readonly elapsedMs: number;
  /** The longest turn of an event loop of the server, 0 if none took 10 ms. */
  readonly stallMs: number;
  readonly healthP99Ms: number;
  readonly healthMaxMs: number;
  readonly rssMaxMib: number;
  readonly waitingBytesMax: number;
}

/** Memory and resumption times of runs that wait for their client. */
export interface WaitsResult {
  readonly runs: number;
  readonly beforeMib: number;
  readonly afterMib: number;
  /** Memory of a run with its open stream. */
  readonly kibPerRun: number;
  /** From sending the answer to the result on the stream. */
  readonly resumeP50Ms: number;
  readonly resumeP99Ms: number;
  readonly resumeMaxMs: number;
  /** Runs that were not resumed. */
  readonly lost: number;
}

/** Durable runs against turns of the same work. */
export interface DurableRow {
  readonly load: string;
  readonly streams: number;
  readonly runsPerSecond: number;
  readonly turnsPerSecond: number;
  /** Turns per second divided by durable runs per second. */
  readonly cost: number;
  /** CPU time of the server. */
  readonly cpuPerRunMicros: number;
  readonly cpuPerTurnMicros: number;
  /** Durable runs per second of CPU time. */
  readonly runsPerCpuSecond: number;
  /** From the acceptance to the first step. */
  readonly startP50Ms: number;
  readonly startP99Ms: number;
  /** The number of runs in the start latency. */
  readonly started: number;
  readonly errors: Readonly<Record<string, number>>;
  readonly othersShare: number;
}

export interface DurableResult {
  readonly concurrency: number;
  readonly rows: readonly DurableRow[];
  readonly wakes: number;
  /** From sending the answer to the result on the stream. */
  readonly wakeP50Ms: number;
  readonly wakeP99Ms: number;
  /** Runs that were not resumed. */
  readonly lost: number;
}

export interface SoakResult {
  readonly turns: number;
  readonly threads: number;
  readonly seconds: number;
  readonly turnsPerSecond: number;
  readonly errors: Readonly<Record<string, number>>;
  /** Median memory of each quarter of the turns. */
  readonly quartersMib: readonly number[];
  /** Memory of the last quarter divided by that of the second. */
  readonly growth: number;
}

/** One wait on the path of a turn, over all turns that have it. */
export interface Part {
  readonly part: string;
  readonly p50Ms: number;
  readonly p90Ms: number;
}

export interface FirstWordResult {
  readonly streams: number;
  /** The same load on the targets other than svc. */
  readonly outside: readonly { readonly target: TargetName; readonly ttftP50Ms: number }[];
  readonly variants: readonly {
    readonly variant: string;
    /** Turns that reached their first token in the measurement. */
    readonly turns: number;
    readonly othersShare: number;
    readonly parts: readonly Part[];
  }[];
}

export interface BodiesResult {
  readonly streams: number;
  /** The neighbour's connections; each sends the next body when the last one is answered. */
  readonly connections: number;
  readonly bodyBytes: number;
  readonly seconds: number;
  /** Responses to the neighbour, by status. */
  readonly answers: Readonly<Record<string, number>>;
  readonly alone: OthersLatency;
  readonly beside: OthersLatency;
}

interface OthersLatency {
  readonly turns: number;
  readonly ttftP50Ms: number;
  readonly ttftP99Ms: number;
  readonly ttftMaxMs: number;
  readonly turnP50Ms: number;
  readonly errors: Readonly<Record<string, number>>;
  readonly othersShare: number;
}

export interface Verdict {
  readonly figure: string;
  readonly unit: string;
  readonly value: number;
  readonly must: number;
  readonly aim: number;
  readonly state: "aim reached" | "reached" | "MISSED";
}

/** The median: the mean of the two middle values for an even number; NaN without values. */
export function median(values: readonly number[]): number {
  const sorted = values.filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
  const middle = sorted.length / 2;
  if (sorted.length === 0) return Number.NaN;
  if (!Number.isInteger(middle)) return sorted[Math.floor(middle)] ?? Number.NaN;
  return ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2;
}

export function addCounts(total: Record<string, number>, more: Readonly<Record<string, number>>): void {
  for (const [name, count] of Object.entries(more)) total[name] = (total[name] ?? 0) + count;
}

export function sumCounts(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}
