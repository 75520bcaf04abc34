import { workerData } from "node:worker_threads";
import type { LongRead, LongReadOutcome } from "./long-reads.ts";
import { SqliteReader } from "./reader.ts";
import { sqliteRefusal } from "./refusal.ts";

// Entry point of a thread of the read pool, which calls `readLong` for each task.

let reader: SqliteReader | null = null;

/**
 * Runs one read on this thread's own connection. Returns refusals as data, because a thrown error loses its class
 * between threads.
 */
export function readLong({ statement, params }: LongRead): LongReadOutcome {
  try {
    reader ??= new SqliteReader(workerData as string);
    return { rows: reader.read(statement, params), error: null };
  } catch (error) {
    const refusal = sqliteRefusal(error, statement.name);
    return { rows: null, error: refusal.toWire(), reason: String(refusal.cause ?? refusal.message) };
  }
}
