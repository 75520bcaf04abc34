import type { Client, Connection, FieldDef, Submittable } from "pg";
import type { Param, Row } from "../store/statements.ts";

// One batch on the wire is parse, bind and execute for every statement, and a single Sync at the end, sent at once. The
// server runs everything up to the Sync as one implicit transaction. It commits at the Sync, or rolls back at the first
// error and skips the rest. A batch therefore takes one round trip and is atomic.

/** One statement to execute. */
export interface PipelineItem {
  /** Name under which the server keeps the prepared statement. */
  readonly key: string;
  readonly text: string;
  readonly params: readonly Param[];
}

/** The prepared statements of a connection, with their result fields, or null for statements without rows. */
export type PreparedStatements = Map<string, readonly FieldDef[] | null>;

/** An item of a pipeline has failed; the cause is the database's error. */
export class PipelineError extends Error {
  /** Index of the failed item. */
  readonly index: number;
  /** True if the answer of an item is missing, so that the server has not reached the commit. */
  readonly isBeforeCommit: boolean;

  constructor(cause: unknown, answered: number, items: number) {
    super((cause as Error).message, { cause });
    this.index = Math.min(answered, items - 1);
    this.isBeforeCommit = answered < items;
  }
}

/**
 * Runs the items as one transaction. Returns the rows of each item, null for an item without rows. Throws a
 * `PipelineError`, after which nothing has changed unless the connection was lost. `prepared` is null to prepare no
 * statements on the server.
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

/** Implements the client's interface for queries; the `pg` client calls its methods. */
class Pipeline implements Submittable {
  readonly #items: readonly PipelineItem[];
  readonly #prepared: PreparedStatements | null;
  readonly #connection: Connection;
  readonly #resolve: (rows: (Row[] | null)[]) => void;
  readonly #reject: (error: PipelineError) => void;
  readonly #results: (Row[] | null)[] = [];
  /** Indexes of the items that were sent with a Parse; the server confirms them in this order. */
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

  /** Resets the state for the answers of the next item. */
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
    this.#reject(new PipelineError(error, this.#results.length, this.#items.length));
  }

  /** The server has committed; earlier results were provisional. */
  handleReadyForQuery(): void {
    this.#connection.off("parseComplete", this.#onParsed);
    this.#resolve(this.#results);
  }
}

function toText(value: Param | undefined): string | null {
  return value === null || value === undefined ? null : String(value);
}

// Type numbers of the server's catalog.
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
