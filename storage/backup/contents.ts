import { readFile } from "node:fs/promises";
import { join } from "node:path";

// A backup is a directory: `backup.json` says what is in it, and is written last; the database is `svc.db`, or a file of JSON lines for each
// table; objects lie under `objects/` by their keys.

/** What a directory of a backup is recognised by. */
export const contentsName = "backup.json";
/** Where objects are, in a backup. */
export const objectsFolder = "objects";
/** The database of SQLite, in a backup. */
export const databaseName = "svc.db";
const format = 1;

/** A file of a backup. */
export interface SavedFile {
  /** From the directory of the backup, with slashes. */
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
}

/** A table, with its own file where the database has no other. */
export interface SavedTable {
  readonly name: string;
  readonly rows: number;
  readonly file?: SavedFile;
}

/** What a backup has in it. */
export interface Contents {
  readonly format: number;
  readonly id: string;
  /** Of the svc that has made it. */
  readonly version: string;
  /** ISO 8601: when the snapshot was taken. */
  readonly taken_at: string;
  readonly engine: "sqlite" | "postgres";
  readonly revisions: readonly string[];
  readonly tables: readonly SavedTable[];
  /** The database as one file. */
  readonly database?: SavedFile;
  /** Where sequences of Postgres stand. */
  readonly sequences?: Readonly<Record<string, string>>;
  readonly objects: readonly SavedFile[];
  /** Keys of files whose bytes were not there to be copied. */
  readonly missing: readonly string[];
}

/** A directory is no whole backup, or one that cannot be restored. The message says why. */
export class NoBackup extends Error {
  override readonly name = "NoBackup";
}

/** What a backup of this format begins as. */
export function newContents(facts: Omit<Contents, "format">): Contents {
  return { format, ...facts };
}

/** Reads what is in a backup. Throws NoBackup. */
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
  // A path of ours never leaves the directory.
  for (const { path } of filesOf(contents as Contents))
    if (
      !/^[A-Za-z0-9._~/-]+$/.test(path) ||
      path.split("/").some((part) => part === "" || part === "." || part === "..")
    )
      throw new NoBackup(`${directory} names the file ${JSON.stringify(path)}, which a backup never contains.`);
  return contents as Contents;
}

/** Every file of a backup but the list itself. */
export function filesOf({ database, tables, objects }: Contents): SavedFile[] {
  return [...(database ? [database] : []), ...tables.flatMap(({ file }) => file ?? []), ...objects];
}
