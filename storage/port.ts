import type { MessagePort } from "node:worker_threads";
import type { Env } from "../bus/env.ts";
import { SvcError, type WireError } from "../bus/errors.ts";
import type { Param, Row, Statement } from "./statements.ts";
import type { WriteOp } from "./store.ts";

// What passes between a thread and the store thread. Requests of one event-loop turn travel as one array, and so do the
// answers of one commit.

export const request = { write: 0, read: 1, check: 2 } as const;

/** `[request.write, id, name, params, expect, name, params, expect, …]`, expect -1 for none; or `[request.read, id, name, params]`. */
export type Request = readonly unknown[];
/** `[id, rows, null]` or `[id, null, error]`. Rows of a write are one list for each of its statements. */
export type Answer = readonly [number, readonly Row[] | readonly Row[][] | null, WireError | null];

/** Unanswered requests of one thread, and the characters in them; more are refused, so that a stalled disk cannot fill the memory. */
const unansweredMax = 20_000;
const unansweredCharsMax = 64 * 1024 * 1024;

interface Waiting {
  readonly chars: number;
  resolve(value: never): void;
  reject(error: SvcError): void;
}

/** A thread's end of the connection to the store thread. */
export class StorePort {
  /** On Postgres each batch has a connection of its own. */
  readonly inOrder = false;
  readonly #env: Env;
  readonly #port: MessagePort;
  readonly #waiting = new Map<number, Waiting>();
  #outgoing: Request[] = [];
  #unansweredChars = 0;
  #nextId = 1;
  #closed = false;

  constructor(env: Env, port: MessagePort) {
    this.#env = env;
    this.#port = port;
    port.on("message", (answers: readonly Answer[]) => {
      for (const answer of answers) this.#settle(answer);
    });
    port.once("close", () => this.close());
  }

  write(ops: readonly WriteOp[]): Promise<readonly Row[][]> {
    const id = this.#nextId++;
    const message: unknown[] = [request.write, id];
    let chars = 0;
    for (const { statement, params, expect } of ops) {
      message.push(statement.name, params, expect ?? -1);
      for (const param of params) if (typeof param === "string") chars += param.length;
    }
    return this.#ask(id, message, chars);
  }

  read(statement: Statement, params: readonly Param[]): Promise<Row[]> {
    const id = this.#nextId++;
    return this.#ask(id, [request.read, id, statement.name, params], 0);
  }

  check(): Promise<void> {
    const id = this.#nextId++;
    return this.#ask(id, [request.check, id], 0);
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#port.close();
    for (const waiting of this.#waiting.values()) waiting.reject(new SvcError("storage_unavailable"));
    this.#waiting.clear();
  }

  #ask<T>(id: number, message: Request, chars: number): Promise<T> {
    const full =
      this.#waiting.size >= unansweredMax ||
      // One that is larger than the bound by itself goes when nothing else waits.
      (this.#unansweredChars > 0 && this.#unansweredChars + chars > unansweredCharsMax);
    if (this.#closed || full) return Promise.reject(new SvcError("storage_unavailable"));
    return new Promise<T>((resolve, reject) => {
      this.#waiting.set(id, { chars, resolve, reject });
      this.#unansweredChars += chars;
      this.#outgoing.push(message);
      // What the store is asked while it has nothing to do starts at once; the rest of the turn of the event loop goes together.
      if (this.#waiting.size === 1) this.#flush();
      else if (this.#outgoing.length === 1) this.#env.defer(this.#flush);
    });
  }

  #flush = (): void => {
    const outgoing = this.#outgoing;
    this.#outgoing = [];
    this.#port.postMessage(outgoing);
  };

  #settle([id, rows, error]: Answer): void {
    const waiting = this.#waiting.get(id);
    if (!waiting) return;
    this.#waiting.delete(id);
    this.#unansweredChars -= waiting.chars;
    if (error) waiting.reject(SvcError.fromWire(error));
    else waiting.resolve(rows as never);
  }
}
