import { workerData } from "node:worker_threads";
import type { LongRead, LongReadOutcome } from "./long-reads.ts";
import { SqliteReader } from "./reader.ts";
import { sqliteRefusal } from "./refusal.ts";

// Entry of a thread of the compute pool, which calls `readLong` for each task.

let reader: SqliteReader | null = null;

/** Makes one read on this thread's own connection. Never throws: an error would lose its class on the way. */
export function readLong({ statement, params }: LongRead): LongReadOutcome {
  try {
    reader ??= new SqliteReader(workerData as string);
    return { rows: reader.read(statement, params), error: null };
  } catch (error) {
    const refusal = sqliteRefusal(error, statement.name);
    return { rows: null, error: refusal.toWire(), reason: String(refusal.cause ?? refusal.message) };
  }
}
