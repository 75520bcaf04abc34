// The messages between the runner and its test processes.

/** A test, or a file, that has failed. */
export interface Failure {
  readonly name: string;
  readonly line: number;
  readonly column: number;
  /** The error as it is printed. */
  readonly text: string;
}

export interface Skip {
  readonly name: string;
  readonly reason: string;
}

/** One test or suite that has ended. */
export interface Ended {
  readonly kind: "test" | "suite";
  readonly outcome: "passed" | "failed" | "cancelled" | "skipped" | "todo";
  readonly failure?: Failure;
  readonly skip?: Skip;
}

/** A command to a test process: run a file, or end. With `alone` the process runs only that file, as `node --test` would. */
export type Order = { readonly file: string; readonly alone: boolean } | "end";

/** A message of a test process about its current file. */
export type Word =
  | { readonly ended: Ended }
  /** The file has started a server or a process. */
  | { readonly boot: Boot }
  /** The file has ended. `left` lists the resources and changes that remain. */
  | { readonly done: { readonly left: readonly string[]; readonly ms: number } };

/** A server in its own process, a server in the shared process, and the shared process itself. */
export type Boot = "server" | "hosted" | "host";
