import type { Client, Connection, FieldDef, Submittable } from "pg";
import type { Param, Row } from "../store/statements.ts";

// One batch on the wire: parse, bind and execute for every statement and a single Sync at the end, sent at once. Until that
// Sync the server runs them as one transaction of its own making, which it commits there, or undoes at the first error and
// skips the rest: a batch takes one round trip, and no half of it can stay.

/** One statement to execute. */
export interface PipelineItem {
  /** Under which the server keeps the plan. */
  readonly key: string;
  readonly text: string;
  readonly params: readonly Param[];
}

/** The statements that a connection has prepared, with the fields of those that answer rows. */
export type PreparedStatements = Map<string, readonly FieldDef[] | null>;

/** One item of a pipeline has failed; the cause is the database's own error. */
export class PipelineError extends Error {
  /** The item that failed. */
  readonly index: number;

  constructor(cause: unknown, index: number) {
    super((cause as Error).message, { cause });
    this.index = index;
  }
}

/**
 * Runs the items as one transaction and answers the rows of each, null for one that has none; throws a `PipelineError`, and
 * then nothing has changed, unless the connection was lost. `prepared` is null when nothing is to be kept on the server.
 */
export function runPipeline(
  client: Client,
  items: readonly PipelineItem[],
  prepared: PreparedStatements | null,
): Promise<(Row[] | null)[]> {
  return new Promise((resolve, reject) => {
    client.query(new Pipeline(items, prepared, client.connection, resolve, reject));
  });
}

/** The client drives it: the methods are its protocol for queries. */
class Pipeline implements Submittable {
  readonly #items: readonly PipelineItem[];
  readonly #prepared: PreparedStatements | null;
  readonly #connection: Connection;
  readonly #resolve: (rows: (Row[] | null)[]) => void;
  readonly #reject: (error: PipelineError) => void;
  readonly #results: (Row[] | null)[] = [];
  /** The items that were sent with a Parse, which the server answers in this order. */
  readonly #parsing: number[] = [];
  #fields: readonly FieldDef[] | null = null;
  #rows: Row[] = [];

  constructor(
    items: readonly PipelineItem[],
    prepared: PreparedStatements | null,
    connection: Connection,
    resolve: (rows: (Row[] | null)[]) => void,
    reject: (error: PipelineError) => void,
  ) {
    this.#items = items;
    this.#prepared = prepared;
    this.#connection = connection;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  submit(connection: Connection): null {
    const sent = new Set<string>();
    connection.on("parseComplete", this.#onParsed);
    connection.stream.cork();
    this.#items.forEach(({ key, text, params }, index) => {
      const name = this.#prepared ? key : "";
      if (!this.#prepared || !(this.#prepared.has(key) || sent.has(key))) {
        this.#parsing.push(index);
        sent.add(key);
        connection.parse({ name, text, types: [] }, true);
        connection.describe({ type: "S", name }, true);
      }
      connection.bind({ statement: name, values: params.map(toText) }, true);
      connection.execute(null, true);
    });
    connection.sync();
    connection.stream.uncork();
    this.#begin();
    return null;
  }

  #onParsed = (): void => {
    const item = this.#items[this.#parsing.shift() as number] as PipelineItem;
    this.#prepared?.set(item.key, null);
  };

  /** Before the answers of the next item. */
  #begin(): void {
    const item = this.#items[this.#results.length];
    this.#fields = (item && this.#prepared?.get(item.key)) ?? null;
    this.#rows = [];
  }

  handleRowDescription(message: { fields: FieldDef[] }): void {
    this.#fields = message.fields;
    this.#prepared?.set((this.#items[this.#results.length] as PipelineItem).key, message.fields);
  }

  handleDataRow(message: { fields: (string | null)[] }): void {
    this.#rows.push(readRow(this.#fields ?? [], message.fields));
  }

  handleCommandComplete(): void {
    this.#results.push(this.#fields ? this.#rows : null);
    this.#begin();
  }

  handleEmptyQuery(): void {
    this.handleCommandComplete();
  }

  handleError(error: unknown): void {
    this.#connection.off("parseComplete", this.#onParsed);
    this.#reject(new PipelineError(error, Math.min(this.#results.length, this.#items.length - 1)));
  }

  /** The server has committed: every result before it was only provisional. */
  handleReadyForQuery(): void {
    this.#connection.off("parseComplete", this.#onParsed);
    this.#resolve(this.#results);
  }
}

function toText(value: Param | undefined): string | null {
  return value === null || value === undefined ? null : String(value);
}

// Type numbers of the server's catalogue.
const boolType = 16;
const numberTypes = new Set([20, 21, 23, 26, 700, 701, 1700]);

function readRow(fields: readonly FieldDef[], values: readonly (string | null)[]): Row {
  const row: Row = {};
  for (let i = 0; i < fields.length; i++) {
    const { name, dataTypeID } = fields[i] as FieldDef;
    const value = values[i] as string | null;
    if (value === null) row[name] = null;
    else if (numberTypes.has(dataTypeID)) row[name] = Number(value);
    else if (dataTypeID === boolType) row[name] = value === "t" ? 1 : 0;
    else row[name] = value;
  }
  return row;
}
