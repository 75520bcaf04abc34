import { readFile } from "node:fs/promises";
import { join } from "node:path";

// A backup is a directory. `backup.json` lists its contents and is written last. The database is `svc.db`, or one file
// of JSON lines per table. Objects lie under `objects/` by key.

/** Name of the file that marks a directory as a backup. */
export const contentsName = "backup.json";
/** Folder of the objects inside a backup. */
export const objectsFolder = "objects";
/** Name of the SQLite database file inside a backup. */
export const databaseName = "svc.db";
const format = 1;

/** One file of a backup. */
export interface SavedFile {
  /** Path relative to the backup directory, with forward slashes. */
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
}

/** One table of a backup; it has its own file when the engine is Postgres. */
export interface SavedTable {
  readonly name: string;
  readonly rows: number;
  readonly file?: SavedFile;
}

/** The list of a backup's contents, stored as `backup.json`. */
export interface Contents {
  readonly format: number;
  readonly id: string;
  /** Version of svc that made the backup. */
  readonly version: string;
  /** Time of the snapshot, in ISO 8601. */
  readonly taken_at: string;
  readonly engine: "sqlite" | "postgres";
  readonly revisions: readonly string[];
  readonly tables: readonly SavedTable[];
  /** The whole database in one file; only for SQLite. */
  readonly database?: SavedFile;
  /** Last values of the Postgres sequences, by name. */
  readonly sequences?: Readonly<Record<string, string>>;
  readonly objects: readonly SavedFile[];
  /** Keys of files and artifacts that have a row but no object, so that no bytes could be copied. */
  readonly missing: readonly string[];
}

/** The directory is not a complete backup, or cannot be restored. The message gives the reason. */
export class NoBackup extends Error {
  override readonly name = "NoBackup";
}

/** Returns the contents of a backup in the current format. */
export function newContents(facts: Omit<Contents, "format">): Contents {
  return { format, ...facts };
}

/** Reads the list of a backup's contents. Throws NoBackup. */
export async function readContents(directory: string): Promise<Contents> {
  let contents: Partial<Contents>;
  try {
    contents = JSON.parse(await readFile(join(directory, contentsName), "utf8")) as Partial<Contents>;
  } catch (error) {
    const isAbsent = (error as NodeJS.ErrnoException).code === "ENOENT";
    throw new NoBackup(
      `${directory} is not a complete backup: ${contentsName} ${isAbsent ? "is missing" : "cannot be read"}.`,
      { cause: error },
    );
  }
  if (contents.format !== format)
    throw new NoBackup(
      `${directory} has the format ${String(contents.format)}, but this version reads format ${format}.`,
    );
  // A path written by svc never leaves the directory.
  for (const { path } of filesOf(contents as Contents))
    if (
      !/^[A-Za-z0-9._~/-]+$/.test(path) ||
      path.split("/").some((part) => part === "" || part === "." || part === "..")
    )
      throw new NoBackup(`${directory} names the file ${JSON.stringify(path)}, which a backup never contains.`);
  return contents as Contents;
}

/** Returns every file of a backup except `backup.json` itself. */
export function filesOf({ database, tables, objects }: Contents): SavedFile[] {
  return [...(database ? [database] : []), ...tables.flatMap(({ file }) => file ?? []), ...objects];
}
