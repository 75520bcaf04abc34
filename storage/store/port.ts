import type { MessagePort } from "node:worker_threads";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { SlotTable } from "../../bus/slot-map.ts";
import { type Answer, type Request, RequestWriter } from "./requests.ts";
import type { Param, Row, Statement } from "./statements.ts";
import { requestMs, type WriteOp } from "./store.ts";

/** Max unanswered requests of one thread. More are refused, so that a stalled disk cannot fill the memory. */
const unansweredMax = 20_000;
/** Max characters of these requests in total. */
const unansweredCharsMax = 64 * 1024 * 1024;

/** Max wait for a read. */
const readMs = requestMs;
/** Max wait for a read whose length grows with the stored data. */
const longReadMs = 60_000;
/** Interval of the search for overdue requests, and so the precision of deadlines. */
const sweepMs = 100;

interface Waiting {
  readonly chars: number;
  /** On the monotonic clock; infinite without a deadline, and after the request was refused as late. */
  deadline: number;
  /** True if the request was refused as late; `onLate` may still report its outcome. */
  isLate: boolean;
  readonly onLate: (() => void) | undefined;
  resolve(value: never): void;
  reject(error: SvcError): void;
}

/** A thread's end of the connection to the store thread. */
export class StorePort {
  /** False: on Postgres each batch has a connection of its own. */
  readonly inOrder = false;
  readonly #env: Env;
  readonly #port: MessagePort;
  readonly #requests = new RequestWriter();
  readonly #waiting = new SlotTable<Waiting>(1);
  #outgoing: Request[] = [];
  #unansweredChars = 0;
  #sweeping = false;
  #closed = false;

  constructor(env: Env, port: MessagePort) {
    this.#env = env;
    this.#port = port;
    port.on("message", (answers: readonly Answer[]) => {
      for (const answer of answers) this.#settle(answer);
    });
    port.once("close", () => this.close());
  }

  write(
    ops: readonly WriteOp[],
    deadlineMs = Number.POSITIVE_INFINITY,
    onLate?: () => void,
  ): Promise<readonly Row[][]> {
    const message = this.#requests.write(ops);
    let chars = 0;
    for (const item of message) if (typeof item === "string") chars += item.length;
    return this.#ask(message, chars, deadlineMs, onLate);
  }

  read(statement: Statement, params: readonly Param[]): Promise<Row[]> {
    return this.#read(statement, params, readMs);
  }

  readLong(statement: Statement, params: readonly Param[]): Promise<Row[]> {
    return this.#read(statement, params, longReadMs);
  }

  check(): Promise<void> {
    return this.#ask(this.#requests.check(), 0, readMs);
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#port.close();
    for (const [id, waiting] of this.#waiting.entries()) {
      this.#waiting.take(id);
      waiting.reject(new SvcError("storage_unavailable"));
    }
  }

  #read(statement: Statement, params: readonly Param[], answerMs: number): Promise<Row[]> {
    return this.#ask(this.#requests.read(statement, params, answerMs), 0, answerMs);
  }

  /** Sends `message` after setting its id, which is its second item. */
  #ask<T>(message: unknown[], chars: number, deadlineMs: number, onLate?: () => void): Promise<T> {
    const full =
      this.#waiting.size >= unansweredMax ||
      // A request above the limit by itself is sent when no other is pending.
      (this.#unansweredChars > 0 && this.#unansweredChars + chars > unansweredCharsMax);
    if (this.#closed || full) return Promise.reject(new SvcError("storage_unavailable"));
    return new Promise<T>((resolve, reject) => {
      const deadline = this.#env.monotonic() + deadlineMs;
      message[1] = this.#waiting.add({ chars, deadline, isLate: false, onLate, resolve, reject });
      if (deadlineMs !== Number.POSITIVE_INFINITY) this.#sweepLater();
      this.#unansweredChars += chars;
      const isFirst = this.#outgoing.length === 0;
      const { untold } = this.#requests;
      if (untold.length > 0) this.#outgoing.push(...untold.splice(0));
      this.#outgoing.push(message);
      // A request to an idle store is sent at once; the rest of the event-loop turn is sent together.
      if (this.#waiting.size === 1) this.#flush();
      else if (isFirst) this.#env.defer(this.#flush);
    });
  }

  #flush = (): void => {
    const outgoing = this.#outgoing;
    this.#outgoing = [];
    this.#port.postMessage(outgoing);
  };

  #sweepLater(): void {
    if (this.#sweeping || this.#closed) return;
    this.#sweeping = true;
    this.#env.timer(sweepMs, this.#sweep);
  }

  /** Refuses overdue requests. The store keeps them until it answers, so they count against the limits until then. */
  #sweep = (): void => {
    this.#sweeping = false;
    const now = this.#env.monotonic();
    let more = false;
    for (const [, waiting] of this.#waiting.entries()) {
      if (waiting.deadline <= now) {
        waiting.deadline = Number.POSITIVE_INFINITY;
        waiting.isLate = true;
        waiting.reject(
          new SvcError("storage_unavailable", {}, { cause: new Error("the store did not answer in time") }),
        );
      } else if (waiting.deadline !== Number.POSITIVE_INFINITY) more = true;
    }
    if (more) this.#sweepLater();
  };

  #settle([id, rows, error]: Answer): void {
    const waiting = this.#waiting.take(id);
    if (!waiting) return;
    this.#unansweredChars -= waiting.chars;
    if (waiting.isLate) {
      if (error === null) waiting.onLate?.();
    } else if (error) waiting.reject(SvcError.fromWire(error));
    else waiting.resolve(rows as never);
  }
}
