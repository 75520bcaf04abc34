// Messages between the harness and its load client.
import type { dialects } from "./answer-reader.ts";
import type { HistogramData } from "./histogram.ts";

/** Back-to-back turns on each of `streams` connections, until the turns or the seconds are used up. */
export interface TurnJob {
  readonly kind: "turns";
  readonly port: number;
  readonly path: string;
  /** `{thread}` is replaced by the thread's id, here and in the body. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly dialect: keyof typeof dialects;
  /** The whole text of a correct response. */
  readonly expected: string;
  /** The prefix of the thread ids. Without `count` every turn has its own thread. */
  readonly threads: { readonly prefix: string; readonly count?: number };
  readonly streams: number;
  /** The streams start evenly over this time; measuring begins after it. */
  readonly rampMs: number;
  readonly turnsMax: number;
  readonly secondsMax: number;
  readonly turnTimeoutMs: number;
  /** Processes whose CPU time is read at both ends of the window. */
  readonly serverPids: readonly number[];
  /** The directory for the times of each turn; absent if turns are not traced. */
  readonly marksDir?: string;
}

/** Figures of the window: from the end of the ramp to the start of the last turn. */
export interface TurnResult {
  readonly windowMs: number;
  /** Turns that ended without an error in the window. */
  readonly turns: number;
  readonly frames: number;
  readonly tokenChars: number;
  readonly serverCpuMs: number;
  readonly clientCpuMs: number;
  /** Of turns that started in the window and ended without an error. */
  readonly ttft: HistogramData;
  readonly turn: HistogramData;
  /** Counts by kind of error, over all turns of the job. */
  readonly errors: Readonly<Record<string, number>>;
  readonly turnsWithRamp: number;
  /** Total of ended turns, about once a second: `[epoch ms, turns, …]`. */
  readonly progress: readonly number[];
  readonly windowFromEpochMs: number;
  readonly windowToEpochMs: number;
}

/** Opens streams that stay open until `close`. Streams use the threads in rotation. */
export interface IdleJob {
  readonly kind: "idle";
  readonly port: number;
  /** `{thread}` is replaced by the thread's id. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly threads: { readonly prefix: string; readonly count: number };
  readonly streams: number;
  readonly timeoutMs: number;
}

export interface IdleResult {
  /** Open streams that have received their first frame. */
  readonly open: number;
  readonly errors: Readonly<Record<string, number>>;
  readonly elapsedMs: number;
}

/** Repeats one request until `close`. Each connection sends the next as soon as the last is answered. */
export interface RepeatJob {
  readonly kind: "repeat";
  readonly port: number;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly connections: number;
}

export interface RepeatResult {
  /** Counts by status, or by error of the connection. */
  readonly answers: Readonly<Record<string, number>>;
  readonly elapsedMs: number;
}

/** Reattaches many streams at once. Streams use the threads in rotation. */
export interface CrowdJob {
  readonly kind: "crowd";
  readonly port: number;
  /** `{thread}` is replaced by the thread's id. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly threads: { readonly prefix: string; readonly count: number };
  readonly streams: number;
  /** True if the streams are read; otherwise each stays open for `holdMs`. */
  readonly reads: boolean;
  readonly holdMs: number;
  readonly timeoutMs: number;
}

export interface CrowdResult {
  /** Streams that have received a complete first frame. */
  readonly whole: number;
  readonly bytes: number;
  readonly elapsedMs: number;
}

/** Ends the streams of the idle job, or the requests of the repeat job. */
interface CloseJob {
  readonly kind: "close";
}

export type Job = TurnJob | IdleJob | RepeatJob | CrowdJob | CloseJob;

/** A thread id of constant length, so that all requests of a job have the same length. */
export function threadId(prefix: string, number: number): string {
  return `${prefix}-${String(number).padStart(8, "0")}`;
}

/** True if a text is the id of a job's turn; `turnIn` finds the first id in a text. */
export function isTurn(text: unknown): text is string {
  return typeof text === "string" && /^t\d+-\d{8}$/.test(text);
}

export function turnIn(text: string): string | undefined {
  return /\bt\d+-\d{8}\b/.exec(text)?.[0];
}
