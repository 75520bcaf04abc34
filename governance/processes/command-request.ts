import type { WritableFolder } from "./sandbox.ts";
import type { OnOutput } from "./spawner.ts";

/** A command to start. */
export interface CommandRequest {
  readonly argv: readonly string[];
  /** In addition to PATH, HOME and LANG, which it may replace. */
  readonly env?: Readonly<Record<string, string>>;
  /** Null for a command without files: it begins in an empty temporary folder. */
  readonly folder: WritableFolder | null;
  /** Absolute path where a command without files begins; absent for the temporary folder. */
  readonly cwd?: string;
  /** The tenant for which it runs. */
  readonly tenantId: string;
  /** Bytes of each stream that are passed on: the first half and, at the end, the last. Absent for all. */
  readonly keepBytes?: number;
  readonly onOutput: OnOutput;
  /** Gives up a start that takes long. It does not end a command that has started. */
  readonly signal?: AbortSignal;
}
