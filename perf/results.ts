import type { FlushLatency } from "./disk.ts";
import type { HistogramData } from "./histogram.ts";
import type { TargetName } from "./options.ts";
import type { RssSeries } from "./sampler.ts";

/** All that one call of the harness found; the JSON file is exactly this. */
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
  /** What could not be measured, and why. */
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
  /** Of all runs, by what was wrong. */
  readonly errors: Readonly<Record<string, number>>;
  readonly rssMib: number;
  readonly cpuSeconds: number;
  readonly cpuPerTurnMicros: number;
  readonly clientCpuPerTurnMicros: number;
  /** Turns per second against the relay's; undefined where the relay did not run. */
  readonly ratioToRelay: number | undefined;
  /** Processor time of a turn against the relay's. */
  readonly cpuRatioToRelay: number | undefined;
  /** The same against the other checkout's: the median of the rounds, each of which measured one behind the other. */
  readonly cpuRatioToAgainst: number | undefined;
  /** Tokens per second against the mock asked directly. */
  readonly rateToDirect: number | undefined;
  /** Median of the rounds' differences to the direct upstream, at p50. */
  readonly ttftOverDirectMs: number | undefined;
  /** Of all runs. */
  readonly ttft: HistogramData;
  readonly turn: HistogramData;
  readonly rounds: readonly {
    readonly turnsPerSecond: number;
    readonly tokensPerSecond: number;
    readonly ttftP50Ms: number;
    readonly cpuPerTurnMicros: number;
    /** What others took of the machine, from 0 to 1. */
    readonly othersShare: number;
  }[];
}

export interface MemoryResult {
  /** Of svc after it got ready. */
  readonly atRestMib?: number;
  readonly idle?: {
    readonly streams: number;
    readonly threads: number;
    readonly beforeMib: number;
    readonly afterMib: number;
    readonly kibPerStream: number;
    readonly errors: Readonly<Record<string, number>>;
  };
  /** By streams: what a live turn of the paced scenario takes. */
  readonly live: readonly {
    readonly streams: number;
    readonly beforeMib: number;
    readonly duringMib: number;
    readonly kibPerTurn: number;
  }[];
}

/** One kind of request over much that is stored. */
export interface GrowthRow {
  readonly what: string;
  /** After the start. */
  readonly firstMs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** The longest that GET /health waited meanwhile. */
  readonly stallMs: number;
}

/** A crowd that reattached at once. */
export interface ReattachResult {
  readonly streams: number;
  readonly threads: number;
  readonly reads: boolean;
  /** Streams that have had their snapshot as a whole. */
  readonly whole: number;
  readonly bytes: number;
  readonly elapsedMs: number;
  /** The longest turn of an event loop of the server's, 0 when none took 10 ms. */
  readonly stallMs: number;
  readonly healthP99Ms: number;
  readonly healthMaxMs: number;
  readonly rssMaxMib: number;
  readonly waitingBytesMax: number;
}

/** Runs that wait for their client. */
export interface WaitsResult {
  readonly runs: number;
  readonly beforeMib: number;
  readonly afterMib: number;
  /** The open stream included. */
  readonly kibPerRun: number;
  /** From sending the answer to the result on the stream. */
  readonly resumeP50Ms: number;
  readonly resumeP99Ms: number;
  readonly resumeMaxMs: number;
  /** Runs that did not go on. */
  readonly lost: number;
}

/** Durable runs beside turns of the same work. */
export interface DurableRow {
  readonly load: string;
  readonly streams: number;
  readonly runsPerSecond: number;
  readonly turnsPerSecond: number;
  /** How many turns there are for one run. */
  readonly cost: number;
  /** Processor time of the server. */
  readonly cpuPerRunMicros: number;
  readonly cpuPerTurnMicros: number;
  /** Runs for a second of one processor. */
  readonly runsPerCpuSecond: number;
  /** From the acceptance to the first step. */
  readonly startP50Ms: number;
  readonly startP99Ms: number;
  /** Of so many runs. */
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
  /** Runs that did not go on. */
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
  /** The last quarter against the second. */
  readonly growth: number;
}

/** What was measured of one part of a turn, over all turns that have it. */
export interface Part {
  readonly part: string;
  readonly p50Ms: number;
  readonly p90Ms: number;
}

export interface FirstWordResult {
  readonly streams: number;
  /** The same load on what is not svc. */
  readonly outside: readonly { readonly target: TargetName; readonly ttftP50Ms: number }[];
  readonly variants: readonly {
    readonly variant: string;
    /** Turns that came to their first word while measuring. */
    readonly turns: number;
    readonly othersShare: number;
    readonly parts: readonly Part[];
  }[];
}

export interface BodiesResult {
  readonly streams: number;
  /** Of the neighbour; each sends the next body when the last one is answered. */
  readonly connections: number;
  readonly bodyBytes: number;
  readonly seconds: number;
  /** What the neighbour was answered, by status. */
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

/** The middle value; of an even number the mean of the two in the middle; NaN of none. */
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
