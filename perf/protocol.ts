// What the harness and its load client say to each other.
import type { dialects } from "./answer-reader.ts";
import type { HistogramData } from "./histogram.ts";

/** Turns, back to back on each of `streams` connections, until the turns or the seconds are used up. */
export interface TurnJob {
  readonly kind: "turns";
  readonly port: number;
  readonly path: string;
  /** `{thread}` stands for the thread's id here and in the body. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly dialect: keyof typeof dialects;
  /** The whole text that a right answer has. */
  readonly expected: string;
  /** The ids' common beginning. Without `count` every turn has a thread of its own. */
  readonly threads: { readonly prefix: string; readonly count?: number };
  readonly streams: number;
  /** The streams begin one after the other over this time; measuring begins after it. */
  readonly rampMs: number;
  readonly turnsMax: number;
  readonly secondsMax: number;
  readonly turnTimeoutMs: number;
  /** Processes whose processor time is read at the window's ends. */
  readonly serverPids: readonly number[];
  /** Where the times of each turn are noted, when they are wanted. */
  readonly marksDir?: string;
}

/** Figures of the window: from the end of the ramp until the last turn was begun. */
export interface TurnResult {
  readonly windowMs: number;
  /** Turns that ended well in the window. */
  readonly turns: number;
  readonly frames: number;
  readonly tokenChars: number;
  readonly serverCpuMs: number;
  readonly clientCpuMs: number;
  /** Of turns that were begun in the window and ended well. */
  readonly ttft: HistogramData;
  readonly turn: HistogramData;
  /** Of all turns of the job, by what was wrong. */
  readonly errors: Readonly<Record<string, number>>;
  readonly turnsWithRamp: number;
  /** Turns ended so far, about once a second: `[epoch ms, turns, …]`. */
  readonly progress: readonly number[];
  readonly windowFromEpochMs: number;
  readonly windowToEpochMs: number;
}

/** Opens streams that stay open until `close`. Streams are spread over the threads in turn. */
export interface IdleJob {
  readonly kind: "idle";
  readonly port: number;
  /** `{thread}` stands for the thread's id. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly threads: { readonly prefix: string; readonly count: number };
  readonly streams: number;
  readonly timeoutMs: number;
}

export interface IdleResult {
  /** Streams that have had their first frame and are open. */
  readonly open: number;
  readonly errors: Readonly<Record<string, number>>;
  readonly elapsedMs: number;
}

/** Sends one request again and again, the next on a connection as soon as the last was answered, until `close`. */
export interface RepeatJob {
  readonly kind: "repeat";
  readonly port: number;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly connections: number;
}

export interface RepeatResult {
  /** By status, or by what became of the connection. */
  readonly answers: Readonly<Record<string, number>>;
  readonly elapsedMs: number;
}

/** Reattaches many at once. Streams are spread over the threads in turn. */
export interface CrowdJob {
  readonly kind: "crowd";
  readonly port: number;
  /** `{thread}` stands for the thread's id. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly threads: { readonly prefix: string; readonly count: number };
  readonly streams: number;
  /** Whether they read what they have asked for; else each stays open for `holdMs`. */
  readonly reads: boolean;
  readonly holdMs: number;
  readonly timeoutMs: number;
}

export interface CrowdResult {
  /** Streams that have had their first frame as a whole. */
  readonly whole: number;
  readonly bytes: number;
  readonly elapsedMs: number;
}

/** Ends the streams of the idle job, or the requests of the repeat job. */
interface CloseJob {
  readonly kind: "close";
}

export type Job = TurnJob | IdleJob | RepeatJob | CrowdJob | CloseJob;

/** An id that has the same length for every number, so that every request of a job is equally long. */
export function threadId(prefix: string, number: number): string {
  return `${prefix}-${String(number).padStart(8, "0")}`;
}

/** Whether a text is the id of a turn that a job has made, and the first of them in a text. */
export function isTurn(text: unknown): text is string {
  return typeof text === "string" && /^t\d+-\d{8}$/.test(text);
}

export function turnIn(text: string): string | undefined {
  return /\bt\d+-\d{8}\b/.exec(text)?.[0];
}
