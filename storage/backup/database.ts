import type { Contents } from "./contents.ts";

// What each engine does for a backup and for a restore.

/** A file of a tenant whose bytes are among the objects. */
export interface KeptFile {
  readonly tenant_id: string;
  readonly file_id: string;
  readonly size_bytes: number;
}

/** What a backup knows of the database alone. */
export type SavedDatabase = Pick<Contents, "engine" | "revisions" | "tables" | "database" | "sequences">;

/** A database at one moment, while others go on with it. */
export interface DatabaseSnapshot {
  /** Writes the database into the directory of the backup. */
  save(directory: string): Promise<SavedDatabase>;
  /** The files that the snapshot names, in pages. */
  keptFiles(): AsyncIterable<readonly KeptFile[]>;
  /** Objects stay for a while from now on, whatever is deleted. */
  hold(): Promise<void>;
  /** What was deleted may go. */
  close(): Promise<void>;
}

/** A database that a backup is put into. */
export interface RestoreTarget {
  /** `empty`, or `ours` where a restore of this backup was cut; else why nothing can be put into it. */
  state(id: string): Promise<"empty" | "ours" | { readonly reason: string }>;
  /** From now until `finish` it is recognised as not whole, and no server starts on it. */
  begin(id: string): Promise<void>;
  /**
   * Puts the backup into it. Answers the tables that were left out: somebody else's, which no revision of the backup makes. Throws when what
   * is then there is not what was saved.
   */
  restore(directory: string, contents: Contents): Promise<readonly string[]>;
  /** Leaves the mark of a restore, by whether open durable runs go on at once. Answers how many of them there are. */
  mark(contents: Contents, isResumed: boolean): Promise<number>;
  /** It is whole. */
  finish(): Promise<void>;
  close(): Promise<void>;
}
