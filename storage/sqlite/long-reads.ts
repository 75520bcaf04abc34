import type { Piscina } from "piscina";
import { SvcError, type WireError } from "../../bus/errors.ts";
import type { Param, Row, Statement } from "../store/statements.ts";
import type { SqliteReader } from "./reader.ts";

/** What a thread of the pool is asked. */
export interface LongRead {
  readonly statement: Statement;
  readonly params: readonly Param[];
}

/** What it answers: rows, or a refusal and what the log may say about it. */
export type LongReadOutcome =
  | { readonly rows: Row[]; readonly error: null }
  | { readonly rows: null; readonly error: WireError; readonly reason: string };

/** No read of a database this small is long: it takes some milliseconds, and the start of a thread 300 and 25 MiB. */
const smallBytes = 1024 * 1024;
/** Threads that read at once: one long search keeps nobody else's waiting. */
const threadsMax = 2;
/** How long a thread that has nothing to read is kept, with its heap and its pages. */
const idleMs = 60_000;
/** Reads that wait for a thread; more are refused. */
const waitingMax = 64;

/**
 * Reads whose length nobody bounds, away from the thread that asks: searches, exports, sums over a window. The threads are
 * made when there is something to read, and end when there is not.
 */
export class LongReads {
  readonly #path: string;
  readonly #reader: SqliteReader;
  #pool: Promise<Piscina> | null = null;
  #closed = false;

  /** `reader` is the thread's own, for what is not long after all. */
  constructor(path: string, reader: SqliteReader) {
    this.#path = path;
    this.#reader = reader;
  }

  /** Sees every commit that was acknowledged before the call. Refuses with storage_unavailable when too many reads wait. */
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

  /** What is being read is refused. */
  close(): void {
    this.#closed = true;
    if (this.#pool !== null) this.#drop(this.#pool);
  }

  /** The package is loaded with the first long read: most threads never make one. */
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
   * Gives up a pool that has lost a thread: it would leave what waits behind that thread waiting. The next read starts another
   * one.
   */
  #drop(started: Promise<Piscina>): void {
    if (this.#pool === started) this.#pool = null;
    void started.then((pool) => pool.destroy());
  }
}
