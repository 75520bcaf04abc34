import type { Piscina } from "piscina";
import { SvcError, type WireError } from "../../bus/errors.ts";
import type { Param, Row, Statement } from "../store/statements.ts";
import type { SqliteReader } from "./reader.ts";

/** The message to a thread of the pool. */
export interface LongRead {
  readonly statement: Statement;
  readonly params: readonly Param[];
}

/** The reply of a thread of the pool: rows, or a refusal with its cause for the log. */
export type LongReadOutcome =
  | { readonly rows: Row[]; readonly error: null }
  | { readonly rows: null; readonly error: WireError; readonly reason: string };

/**
 * Database size below which every read is short: it takes some milliseconds, whereas a new thread costs 300 ms and 25
 * MiB. The tables of an empty database take half of it.
 */
const smallBytes = 2 * 1024 * 1024;
/** Max threads that read in parallel, so that one long search does not block all others. */
const threadsMax = 2;
/** Time after which an idle thread ends and frees its heap and pages. */
const idleMs = 60_000;
/** Max reads that wait for a thread; more are refused. */
const waitingMax = 64;

/**
 * Runs reads of unbounded length, such as searches, exports and sums, in other threads. The threads start on demand and
 * end when idle.
 */
export class LongReads {
  readonly #path: string;
  readonly #reader: SqliteReader;
  #pool: Promise<Piscina> | null = null;
  #closed = false;

  /** `reader` is the calling thread's own connection, for reads of a small database. */
  constructor(path: string, reader: SqliteReader) {
    this.#path = path;
    this.#reader = reader;
  }

  /**
   * Sees every commit that was acknowledged before the call. Refuses with storage_unavailable if too many reads wait.
   */
  async read(statement: Statement, params: readonly Param[]): Promise<Row[]> {
    if (this.#closed) throw new SvcError("storage_unavailable");
    if (this.#reader.bytes() <= smallBytes) return this.#reader.read(statement, params);
    this.#pool ??= this.#start();
    const started = this.#pool;
    const pool = await started;
    if (pool.queueSize >= waitingMax) throw new SvcError("storage_unavailable");
    let outcome: LongReadOutcome;
    try {
      outcome = await pool.run({ statement, params } satisfies LongRead);
    } catch (error) {
      this.#drop(started);
      throw new SvcError("storage_unavailable", {}, { cause: error });
    }
    if (outcome.error) {
      const { code, details } = outcome.error;
      throw new SvcError(code, details, { cause: new Error(outcome.reason) });
    }
    return outcome.rows;
  }

  /** Closes the pool; reads in progress are refused. */
  close(): void {
    this.#closed = true;
    if (this.#pool !== null) this.#drop(this.#pool);
  }

  /** Imports the package on the first long read: most threads never make one. */
  async #start(): Promise<Piscina> {
    const { Piscina } = await import("piscina");
    const pool = new Piscina({
      filename: new URL("./long-reads-worker.ts", import.meta.url).href,
      name: "readLong",
      workerData: this.#path,
      minThreads: 0,
      maxThreads: threadsMax,
      idleTimeout: idleMs,
      recordTiming: false,
      execArgv: ["--import", new URL("../../strip-types.js", import.meta.url).href],
    });
    // A thread could not start.
    pool.on("error", () => void pool.destroy());
    return pool;
  }

  /**
   * Destroys a pool that has lost a thread: reads queued for that thread would never finish. The next read starts a new
   * pool.
   */
  #drop(started: Promise<Piscina>): void {
    if (this.#pool === started) this.#pool = null;
    void started.then((pool) => pool.destroy());
  }
}
