import type { WireError } from "../../bus/errors.ts";
import { learnStatement, type Param, type Row, type Statement } from "./statements.ts";
import type { WriteOp } from "./store.ts";

// Messages between a thread and the store thread. The requests of one event-loop turn are one array, as are the answers
// of one commit. A request is a flat array that refers to statements by number: structured clone takes twice as long
// for nested arrays with names.

export const request = { write: 0, read: 1, check: 2, learn: 3 } as const;

/**
 * `[request.write, id, number, expect, …params, number, expect, …params, …]`, with expect -1 for none; `[request.read,
 * id, number, answerMs, …params]`; `[request.check, id]`; or `[request.learn, number, statement]`, before the first
 * request that uses the number.
 */
export type Request = readonly unknown[];
/** `[id, rows, null]` or `[id, null, error]`. The rows of a write are one list per statement. */
export type Answer = readonly [number, readonly Row[] | readonly Row[][] | null, WireError | null];

/** Encodes requests. The text of a statement is sent once, before its first use. */
export class RequestWriter {
  readonly #numbers = new Map<Statement, number>();
  /** Messages that introduce statements. Send them before the request that was encoded last. */
  readonly untold: Request[] = [];

  write(ops: readonly WriteOp[]): unknown[] {
    // Built with push: an array with a preset length may have holes, and is cloned as slowly as an object.
    const message: unknown[] = [request.write, 0];
    for (const { statement, params, expect } of ops) {
      message.push(this.#number(statement), expect ?? -1);
      for (const param of params) message.push(param);
    }
    return message;
  }

  read(statement: Statement, params: readonly Param[], answerMs: number): unknown[] {
    return [request.read, 0, this.#number(statement), answerMs, ...params];
  }

  check(): unknown[] {
    return [request.check, 0];
  }

  #number(statement: Statement): number {
    const known = this.#numbers.get(statement);
    if (known !== undefined) return known;
    const number = this.#numbers.size;
    this.#numbers.set(statement, number);
    this.untold.push([request.learn, number, statement]);
    return number;
  }
}

/** Decodes the requests of one `RequestWriter`. */
export class RequestReader {
  readonly #statements: Statement[] = [];

  learn(message: Request): void {
    this.#statements[message[1] as number] = learnStatement(message[2] as Statement);
  }

  ops(message: Request): WriteOp[] {
    const ops: WriteOp[] = [];
    for (let at = 2; at < message.length; ) {
      const statement = this.#statement(message[at]);
      const expect = message[at + 1] as number;
      const params = message.slice(at + 2, at + 2 + statement.paramCount) as Param[];
      ops.push({ statement, params, expect: expect < 0 ? undefined : expect });
      at += 2 + statement.paramCount;
    }
    return ops;
  }

  asked(message: Request): { statement: Statement; answerMs: number; params: Param[] } {
    return {
      statement: this.#statement(message[2]),
      answerMs: message[3] as number,
      params: message.slice(4) as Param[],
    };
  }

  #statement(number: unknown): Statement {
    const statement = this.#statements[number as number];
    if (!statement) throw new Error(`no statement was sent with the number ${String(number)}`);
    return statement;
  }
}
