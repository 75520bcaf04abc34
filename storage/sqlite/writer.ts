import Database from "better-sqlite3";
import { SvcError } from "../../bus/errors.ts";
import type { SqliteConfig } from "../store/config.ts";
import type { Row, Statement } from "../store/statements.ts";
import type { WriteOp } from "../store/store.ts";
import type { WriteOutcome, Writer } from "../store/writer.ts";
import { AddedRows, textForRows } from "./added-rows.ts";
import { OwnFiles } from "./own-files.ts";
import { isSchemaMissing, sqliteRefusal } from "./refusal.ts";
import { loadVectorFunctions } from "./vector-functions.ts";

/** Pages in the write-ahead log before a checkpoint: 32 MiB, so that hot pages are copied once for many commits. */
const checkpointPages = 8192;

/** Max wait for another process's write, such as an operator's shell. All other work of the thread waits too. */
const otherWriterMs = 5_000;

/** Bytes of the write-ahead log that stay on disk after a reader had delayed its checkpoint. */
const logBytesKept = 64 * 1024 * 1024;

/**
 * Opens the only connection that writes. Batches that wait together share one transaction and one flush to disk,
 * because a flush costs as much as fifty inserts.
 *
 * A group first runs without savepoints and with combined inserts into its logs. This is the common case and costs
 * half. If a batch is refused, the group rolls back and runs again with a savepoint per batch, so that only that batch
 * is refused. This includes a batch whose table is missing.
 *
 * If the disk or the file fails, the whole group is refused and rolled back. Nothing is acknowledged if the database,
 * its log or the lock file was removed or replaced. `clock` replaces the machine's time in statements, in epoch
 * milliseconds.
 */
export function openSqliteWriter(
  { path, lockPath }: SqliteConfig,
  timeoutMs: number = otherWriterMs,
  clock?: () => number,
): Writer {
  const db = new Database(path, { timeout: timeoutMs });
  loadVectorFunctions(db);
  if (clock) db.function("unixepoch", { varargs: true }, () => clock() / 1000);
  db.pragma("journal_mode = WAL");
  db.pragma("synchronous = FULL");
  db.pragma(`wal_autocheckpoint = ${checkpointPages}`);
  db.pragma(`journal_size_limit = ${logBytesKept}`);
  db.pragma("temp_store = MEMORY");
  // The first read creates the write-ahead log, which stays until the last connection closes.
  db.pragma("schema_version");
  const files = new OwnFiles([path, `${path}-wal`, ...(lockPath === undefined ? [] : [lockPath])]);

  const prepared = new Map<string, Database.Statement<unknown[], Row>>();
  const begin = db.prepare("BEGIN IMMEDIATE");
  const commit = db.prepare("COMMIT");
  const rollback = db.prepare("ROLLBACK");
  const savepoint = db.prepare("SAVEPOINT batch");
  const release = db.prepare("RELEASE batch");
  const undo = db.prepare("ROLLBACK TO batch");

  let failure: SvcError | null = null;

  /** Returns the prepared statement; for an insert, the one with that many rows. */
  function prepare(statement: Statement, rows = 1): Database.Statement<unknown[], Row> {
    const name = rows === 1 ? statement.name : `${statement.name} of ${rows}`;
    const known = prepared.get(name);
    if (known) return known;
    const text = rows === 1 ? statement.text.sqlite : textForRows(statement, rows);
    const made = db.prepare<unknown[], Row>(text);
    prepared.set(name, made);
    return made;
  }

  /**
   * Runs one batch. Throws the refusal of the first statement that fails or misses its expected count. `added` takes
   * over the operations that it accepts.
   */
  function apply(batch: readonly WriteOp[], added: AddedRows | null): WriteOutcome {
    const rows: Row[][] = [];
    for (const op of batch) {
      if (added?.take(op)) continue;
      const { statement, params, expect } = op;
      let changes: number;
      try {
        // Spread into arguments, because the binding looks up each element of an array parameter.
        if (statement.returnsRows) {
          const found = prepare(statement).all(...params);
          rows.push(found);
          changes = found.length;
        } else changes = prepare(statement).run(...params).changes;
      } catch (error) {
        throw sqliteRefusal(error, statement.name);
      }
      if (expect !== undefined && changes !== expect) throw new SvcError("conflict", { subject: statement.name });
    }
    return { rows, error: null };
  }

  /** Runs one batch in a savepoint: a refused batch leaves the transaction unchanged. */
  function applyApart(batch: readonly WriteOp[]): WriteOutcome {
    savepoint.run();
    try {
      const outcome = apply(batch, null);
      release.run();
      return outcome;
    } catch (error) {
      const refusal = sqliteRefusal(error, "");
      if (isOfStore(refusal) || !db.inTransaction) throw refusal;
      undo.run();
      release.run();
      return { rows: null, error: refusal };
    }
  }

  function applyTogether(batches: readonly (readonly WriteOp[])[]): WriteOutcome[] {
    const added = batches.length > 1 ? new AddedRows(prepare) : null;
    const outcomes = batches.map((batch) => apply(batch, added));
    added?.write();
    return outcomes;
  }

  function transact<T>(work: () => T): T {
    try {
      begin.run();
      const result = work();
      commit.run();
      return result;
    } catch (error) {
      if (db.inTransaction) rollback.run();
      throw error;
    }
  }

  function commitGroup(batches: readonly (readonly WriteOp[])[]): WriteOutcome[] {
    try {
      return transact(() => applyTogether(batches));
    } catch (error) {
      const refusal = sqliteRefusal(error, "");
      if (isOfStore(refusal)) throw refusal;
      if (batches.length === 1) return [{ rows: null, error: refusal }];
    }
    return transact(() => batches.map(applyApart));
  }

  return {
    groups: true,
    write(batches, answer) {
      let outcomes: WriteOutcome[];
      try {
        files.check();
        outcomes = commitGroup(batches);
        // A commit to a file that was removed or replaced is not acknowledged.
        files.check();
        failure = outcomes.find(({ error }) => error?.code === "storage_unavailable")?.error ?? null;
      } catch (error) {
        failure = unavailable(error);
        const refused: WriteOutcome = { rows: null, error: failure };
        outcomes = batches.map(() => refused);
      }
      outcomes.forEach((outcome, index) => {
        answer(index, outcome);
      });
    },
    async read(statement, params) {
      try {
        return prepare(statement).all(...params);
      } catch (error) {
        throw sqliteRefusal(error, statement.name);
      }
    },
    async check() {
      try {
        files.check();
        // Only a write proves that writes work again: this one changes the first page and reaches the disk.
        if (failure) transact(() => db.pragma("user_version = 0"));
        else db.pragma("schema_version");
        failure = null;
      } catch (error) {
        failure = unavailable(error);
        throw failure;
      }
    },
    failure: () => failure && String((failure.cause as Error).message),
    async close() {
      db.close();
    },
  };
}

/** True if the refusal concerns the disk, the file or the memory, which all batches share. */
function isOfStore(refusal: SvcError): boolean {
  return refusal.code === "storage_unavailable" && !isSchemaMissing(refusal.cause);
}

function unavailable(error: unknown): SvcError {
  if (error instanceof SvcError && error.code === "storage_unavailable") return error;
  return new SvcError("storage_unavailable", {}, { cause: error });
}
