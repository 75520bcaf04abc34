import type { CommandExit } from "./spawner-frames.ts";

// The protocol between svc and a runner of commands (`svc shell-runner`), JSON over HTTP with a bearer token:
//   POST /commands               starts a command; the answer is a stream of events until its end
//   POST /commands/{id}/input    writes to its standard input
//   DELETE /commands/{id}        ends it
//   POST /run                    runs the program of an image or of a binding, and answers with its output
// A runner ends a command whose stream of events is closed.

/** The body of POST /commands. */
export interface RunnerCommand {
  readonly tenant_id: string;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** A workspace below the runner's own root; null for a command without files. */
  readonly folder: { readonly below: string; readonly cwd: string; readonly hidden: readonly string[] } | null;
  /** Bytes of each stream that are sent; null for all. */
  readonly keep_bytes: number | null;
}

/** An event of a command. The first one has its id, the last one its exit. */
export type RunnerEvent =
  | { readonly id: string }
  /** `data` is base64. */
  | { readonly stream: "stdout" | "stderr"; readonly data: string }
  | { readonly exit: CommandExit };

/** The body of POST /commands/{id}/input. `data` is base64. */
export interface RunnerInput {
  readonly data: string;
  readonly end: boolean;
}

/** The body of POST /run. */
export interface RunnerRun {
  readonly image?: string;
  readonly binding?: string;
  /** Appended to the program. */
  readonly argv?: readonly string[];
  /** A path for the program, before `argv`. */
  readonly path?: string;
  /** Written to standard input as JSON. */
  readonly args?: unknown;
  /** Texts by their path in the folder of the program. */
  readonly files?: Readonly<Record<string, string>>;
  readonly timeout_ms?: number;
  readonly tenant_id?: string;
  readonly thread_id?: string;
  /** A repeated run with the same key gets the same answer. */
  readonly key?: string;
}

/** The answer to POST /run. */
export interface RunnerResult {
  readonly exit_code: number | null;
  readonly output: string;
  readonly timed_out: boolean;
  /** `data` is base64. */
  readonly images: readonly { readonly filename: string; readonly data: string }[];
}

/** Max characters of a line of a stream of events. */
export const eventCharsMax = 1024 * 1024;
