import Database from "better-sqlite3";
import { SvcError } from "../../bus/errors.ts";
import { type Param, type Row, statementNamed } from "../statements.ts";
import type { WriteOutcome, Writer } from "../writer.ts";

type Prepared = Database.Statement<unknown[], Row>;

/** Pages in the log before it is copied into the database file: 32 MiB, so that hot pages are copied once for many commits. */
const checkpointPages = 8192;

/**
 * The one connection that writes. Batches that wait together share one transaction and one flush to disk: on this engine the
 * flush costs as much as fifty inserts.
 *
 * A group is first run without savepoints, which is the common case and half as expensive. When one of its batches fails, the
 * group is undone and run again with a savepoint around each batch, so that only the failing ones are refused.
 */
export function openSqliteWriter(path: string): Writer {
  const db = new Database(path, { timeout: 10_000 });
  db.pragma("journal_mode = WAL");
  db.pragma("synchronous = FULL");
  db.pragma(`wal_autocheckpoint = ${checkpointPages}`);
  db.pragma("foreign_keys = ON");
  db.pragma("temp_store = MEMORY");

  const prepared = new Map<string, Prepared>();
  const begin = db.prepare("BEGIN IMMEDIATE");
  const commit = db.prepare("COMMIT");
  const rollback = db.prepare("ROLLBACK");
  const savepoint = db.prepare("SAVEPOINT batch");
  const release = db.prepare("RELEASE batch");
  const undo = db.prepare("ROLLBACK TO batch");

  function prepare(name: string): Prepared {
    let statement = prepared.get(name);
    if (!statement) {
      statement = db.prepare<unknown[], Row>(statementNamed(name).text.sqlite);
      prepared.set(name, statement);
    }
    return statement;
  }

  /** Runs one batch; throws on the first statement that fails or misses its expected count. */
  function apply(batch: readonly unknown[]): Row[][] {
    const results: Row[][] = [];
    for (let i = 2; i < batch.length; i += 3) {
      const statement = prepare(batch[i] as string);
      const params = batch[i + 1] as Param[];
      const expect = batch[i + 2] as number;
      let changes: number;
      if (statement.reader) {
        const rows = statement.all(params);
        results.push(rows);
        changes = rows.length;
      } else {
        changes = statement.run(params).changes;
      }
      if (expect >= 0 && changes !== expect) throw new SvcError("conflict", { subject: batch[i] as string });
    }
    return results;
  }

  function applyAll(batches: readonly (readonly unknown[])[]): WriteOutcome[] {
    begin.run();
    try {
      const outcomes = batches.map((batch): WriteOutcome => ({ rows: apply(batch), error: null }));
      commit.run();
      return outcomes;
    } catch (error) {
      if (db.inTransaction) rollback.run();
      throw error;
    }
  }

  function applyEach(batches: readonly (readonly unknown[])[]): WriteOutcome[] {
    begin.run();
    try {
      const outcomes = batches.map((batch): WriteOutcome => {
        savepoint.run();
        try {
          const rows = apply(batch);
          release.run();
          return { rows, error: null };
        } catch (error) {
          // A full disk or a failed read ends the whole transaction, not only this batch.
          if (!db.inTransaction) throw error;
          undo.run();
          release.run();
          return { rows: null, error: refusal(error) };
        }
      });
      commit.run();
      return outcomes;
    } catch (error) {
      if (db.inTransaction) rollback.run();
      throw error;
    }
  }

  let lastFailure: SvcError | null = null;

  return {
    async write(batches) {
      try {
        const outcomes = runGroup(batches);
        lastFailure = null;
        return outcomes;
      } catch (error) {
        lastFailure = new SvcError("storage_unavailable", {}, { cause: error });
        const failed: WriteOutcome = { rows: null, error: lastFailure };
        return batches.map(() => failed);
      }
    },
    async read(name, params) {
      return prepare(name).all(params as Param[]);
    },
    async check() {
      if (!lastFailure) return;
      // Only a write shows that writing works again.
      db.exec("BEGIN IMMEDIATE; CREATE TABLE svc_write_check (one INTEGER); DROP TABLE svc_write_check; COMMIT");
      lastFailure = null;
    },
    async close() {
      db.close();
    },
  };

  function runGroup(batches: readonly (readonly unknown[])[]): WriteOutcome[] {
    if (batches.length > 1) {
      try {
        return applyAll(batches);
      } catch {
        // Some batch of the group failed; the second run finds out which.
      }
    }
    return applyEach(batches);
  }
}

/** What a failed statement means to the caller. */
function refusal(error: unknown): SvcError {
  if (error instanceof SvcError) return error;
  if (error instanceof Database.SqliteError) {
    if (error.code.startsWith("SQLITE_CONSTRAINT")) return new SvcError("conflict", {}, { cause: error });
    return new SvcError("storage_unavailable", {}, { cause: error });
  }
  return new SvcError("internal_error", {}, { cause: error });
}
