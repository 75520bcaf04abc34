import { copyFileSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";
import { databaseName, NoBackup } from "../backup/contents.ts";
import type { RestoreTarget } from "../backup/database.ts";
import { flush, savedFile } from "../backup/saved-file.ts";
import { makeDirectories } from "../store/directories.ts";
import { countOpenStatement, markStatement, restoredMark } from "../store/restored-mark.ts";
import { closeToOthers } from "./private-files.ts";
import { markerOf } from "./restore-marker.ts";
import { countRows } from "./snapshot.ts";

/** Suffix of the database file until it is complete. */
const draftSuffix = ".restoring";

/** Opens the path of a SQLite database as the target of a restore. */
export function openSqliteTarget(path: string): RestoreTarget {
  const draft = `${path}${draftSuffix}`;
  const removeDraft = (): void => {
    for (const suffix of ["", "-wal", "-shm", "-journal"]) rmSync(draft + suffix, { force: true });
  };
  const marker = markerOf(path);
  return {
    async state(id) {
      if (existsSync(marker))
        return readFileSync(marker, "utf8") === id
          ? "ours"
          : { reason: `${marker} says that the restore of another backup was interrupted` };
      return existsSync(path) ? { reason: `${path} already exists` } : "empty";
    },
    async begin(id) {
      makeDirectories(dirname(path));
      writeFileSync(marker, id, { mode: 0o600, flush: true });
      await flush(dirname(path));
    },
    async restore(directory, { tables, database }) {
      if (database === undefined) throw new NoBackup("the backup contains no SQLite database.");
      removeDraft();
      copyFileSync(join(directory, databaseName), draft);
      closeToOthers(draft);
      const copied = await savedFile(dirname(draft), draft.slice(dirname(draft).length + 1));
      if (copied.sha256 !== database.sha256)
        throw new NoBackup("the database differs from the saved one: its digest differs.");
      const db = new Database(draft, { fileMustExist: true });
      try {
        for (const { name, rows } of tables) {
          const found = countRows(db, name);
          if (found !== rows) throw new NoBackup(`${name} has ${found} rows instead of ${rows}.`);
        }
        // In this journal mode, closing the database leaves no other files next to it.
        db.pragma("journal_mode = DELETE");
      } finally {
        db.close();
      }
      await flush(draft);
      return [];
    },
    async mark({ tables }, isResumed) {
      const db = new Database(draft, { fileMustExist: true });
      try {
        const { name, held, resumed } = restoredMark;
        db.prepare(markStatement.replace("$1", "?").replace("$2", "?")).run(name, isResumed ? resumed : held);
        if (!tables.some((table) => table.name === "fibers")) return 0;
        return (db.prepare(countOpenStatement).get() as { open: number }).open;
      } finally {
        db.close();
        await flush(draft);
      }
    },
    async finish() {
      renameSync(draft, path);
      await flush(dirname(path));
      rmSync(marker);
      await flush(dirname(path));
    },
    async close() {},
  };
}
