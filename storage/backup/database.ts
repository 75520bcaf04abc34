import type { Contents } from "./contents.ts";

// The interfaces that each database engine implements for backup and restore.

/** A file, an artifact or the file of a document, whose bytes are in the object store. */
export interface KeptObject {
  readonly kind: "files" | "artifacts" | "document_files";
  readonly tenant_id: string;
  readonly id: string;
  /** The manifest of an artifact; empty for the others. */
  readonly manifest: string;
}

/** The tables whose rows have an object, each with the query for a page of rows after a tenant and an id. */
export const objectTables: readonly {
  readonly table: string;
  query(after: readonly [tenant: string, id: string], limit: string): string;
}[] = [
  { table: "files", query: pageOf("files", "file_id", "''") },
  { table: "artifacts", query: pageOf("artifacts", "artifact_id", "manifest") },
  { table: "document_files", query: pageOf("document_files", "file_id", "''") },
];

/** Returns a function that writes the query with the engine's own placeholders. */
function pageOf(table: KeptObject["kind"], id: string, manifest: string) {
  return ([tenant, after]: readonly [string, string], limit: string) =>
    `SELECT '${table}' AS kind, tenant_id, ${id} AS id, ${manifest} AS manifest FROM ${table}
     WHERE state = 'kept' AND (tenant_id, ${id}) > (${tenant}, ${after}) ORDER BY tenant_id, ${id} LIMIT ${limit}`;
}

/** The part of a backup's contents that describes the database. */
export type SavedDatabase = Pick<Contents, "engine" | "revisions" | "tables" | "database" | "sequences">;

/** A consistent view of a database at one moment, while other connections continue to write. */
export interface DatabaseSnapshot {
  /** Writes the database into the directory of the backup. */
  save(directory: string): Promise<SavedDatabase>;
  /** Yields pages of the objects that the snapshot refers to. */
  keptObjects(): AsyncIterable<readonly KeptObject[]>;
  /** Extends the hold: until it expires, deletions leave the objects in place. */
  hold(): Promise<void>;
  /** Ends the snapshot and the hold, so that deleted objects may be removed. */
  close(): Promise<void>;
}

/** The database that a restore fills. */
export interface RestoreTarget {
  /**
   * Returns `empty`, `ours` if an interrupted restore of this backup left it, or the reason why it cannot be filled.
   */
  state(id: string): Promise<"empty" | "ours" | { readonly reason: string }>;
  /** Marks the database as incomplete until `finish`; until then no server starts on it. */
  begin(id: string): Promise<void>;
  /**
   * Copies the backup into the database. Returns the tables that it skipped because no migration of the backup creates
   * them. Throws if the result differs from the backup.
   */
  restore(directory: string, contents: Contents): Promise<readonly string[]>;
  /** Records that the database was restored, and whether its open durable runs resume at once. Returns their number. */
  mark(contents: Contents, isResumed: boolean): Promise<number>;
  /** Marks the database as complete. */
  finish(): Promise<void>;
  close(): Promise<void>;
}
