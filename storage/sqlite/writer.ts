import Database from "better-sqlite3";
import { SvcError } from "../../bus/errors.ts";
import type { SqliteConfig } from "../store/config.ts";
import type { Row, Statement } from "../store/statements.ts";
import type { WriteOp } from "../store/store.ts";
import type { WriteOutcome, Writer } from "../store/writer.ts";
import { AddedRows, textForRows } from "./added-rows.ts";
import { OwnFiles } from "./own-files.ts";
import { isSchemaMissing, sqliteRefusal } from "./refusal.ts";

/** Pages in the log before it is copied into the database file: 32 MiB, so that hot pages are copied once for many commits. */
const checkpointPages = 8192;

/** How long a writer of another process, an operator's shell, is waited for. Everything else waits meanwhile. */
const otherWriterMs = 5_000;

/** What the log file keeps on disk after a reader has held it back and let it grow. */
const logBytesKept = 64 * 1024 * 1024;

/**
 * The one connection that writes. Batches that wait together share one transaction and one flush to disk: on this engine the
 * flush costs as much as fifty inserts.
 *
 * A group is first run without savepoints and with the rows of its logs added together, which is the common case and half as
 * expensive. When one of its batches is refused, the group is undone and run again with a savepoint around each batch, so that only
 * that one is refused, be it that its table is missing. When the disk or the file fails, the whole group is refused and nothing of it is kept; nor is anything
 * acknowledged when the database, its log or the process's lock is not where it was. `clock` tells statements the time, in epoch
 * milliseconds, in the place of the machine's.
 */
export function openSqliteWriter(
  { path, lockPath }: SqliteConfig,
  timeoutMs: number = otherWriterMs,
  clock?: () => number,
): Writer {
  const db = new Database(path, { timeout: timeoutMs });
  if (clock) db.function("unixepoch", { varargs: true }, () => clock() / 1000);
  db.pragma("journal_mode = WAL");
  db.pragma("synchronous = FULL");
  db.pragma(`wal_autocheckpoint = ${checkpointPages}`);
  db.pragma(`journal_size_limit = ${logBytesKept}`);
  db.pragma("temp_store = MEMORY");
  // The first read makes the log, which stays until the last connection is closed.
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

  /** A statement; one that adds a row, for so many of them. */
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
   * Runs one batch; throws the refusal of the first statement that fails or misses its expected count. What `added` takes is left to
   * it.
   */
  function apply(batch: readonly WriteOp[], added: AddedRows | null): WriteOutcome {
    const rows: Row[][] = [];
    for (const op of batch) {
      if (added?.take(op)) continue;
      const { statement, params, expect } = op;
      let changes: number;
      try {
        // Bound one by one: as one array each of them would be looked up in it by the binding.
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

  /** The same, but a batch that is refused leaves the transaction as it was before. */
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
        // What was committed into a file that has no name any more is not acknowledged.
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
        // Only a write shows that writing works again: this one dirties the first page and reaches the disk.
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

/** Whether a refusal speaks of the disk, the file or the memory, which all batches share. */
function isOfStore(refusal: SvcError): boolean {
  return refusal.code === "storage_unavailable" && !isSchemaMissing(refusal.cause);
}

function unavailable(error: unknown): SvcError {
  if (error instanceof SvcError && error.code === "storage_unavailable") return error;
  return new SvcError("storage_unavailable", {}, { cause: error });
}
