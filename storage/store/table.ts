import { type Param, type Row, type Statement, tenantSql } from "./statements.ts";
import type { TenantStore, WriteOp } from "./store.ts";

// Declares tables: the type of a row, how it is decoded, checked and encoded, and the statements that every table
// needs. The migrations contain the schema itself.

/** Type of a column's value. */
export interface Column<T> {
  /** Throws if the stored value has another type, which is a defect of its writer or of a migration. */
  decode(value: Param): T;
  encode(value: T): Param;
}

type Columns = Readonly<Record<string, Column<unknown>>>;

/** The row type of a table with these columns. */
export type RowOf<C extends Columns> = { readonly [K in keyof C]: C[K] extends Column<infer T> ? T : never };

/** A text. */
export const text: Column<string> = plain("a text", (value) => typeof value === "string");
/** A whole number. */
export const integer: Column<number> = plain("a whole number", (value) => Number.isSafeInteger(value));
/** Any number. */
export const real: Column<number> = plain("a number", (value) => typeof value === "number");

/** One of these texts. */
export function oneOf<const T extends string>(...values: readonly T[]): Column<T> {
  return plain(values.join(" or "), (value) => (values as readonly Param[]).includes(value));
}

/** A value or NULL. */
export function nullable<T>(column: Column<T>): Column<T | null> {
  return {
    decode: (value) => (value === null ? null : column.decode(value)),
    encode: (value) => (value === null ? null : column.encode(value)),
  };
}

/** JSON text. Its shape is not checked: the writer guarantees `T`. */
export function json<T>(): Column<T> {
  return {
    decode: (value) => JSON.parse(text.decode(value)) as T,
    encode: (value) => JSON.stringify(value),
  };
}

function plain<T extends Param>(words: string, holds: (value: Param) => boolean): Column<T> {
  return {
    decode(value) {
      if (!holds(value)) throw new Error(`${JSON.stringify(value)} is not ${words}`);
      return value as T;
    },
    encode: (value) => value,
  };
}

/** A table whose rows belong to tenants. */
export interface Table<R> {
  readonly name: string;
  /** The columns in the form of a SELECT list. */
  readonly columns: string;
  /** Returns a checked row. Throws if it does not fit the table. */
  decode(row: Row): R;
  /** Returns the values of the columns, in their order. */
  encode(row: R): Param[];
}

/** Returns a sample row for tests. Its names are guessable and equal to those in other tables' samples. */
export type Sample<R> = (given: SampleGiven) => R;

/** Values that a sample row contains. */
export interface SampleGiven {
  /** Text for every column that only the tenant may read. */
  readonly text: string;
  /** Key of the tenant's thread. */
  readonly threadKey: number;
}

/** A declared table with a sample row. */
export interface SampledTable {
  readonly name: string;
  /** Returns the values of the columns, in their order. */
  readonly row: (given: SampleGiven) => readonly Param[];
}

const sampled: SampledTable[] = [];

/** Returns the tables with a sample row, for the test that runs the statements of one tenant against the rows of another. */
export function sampledTables(): readonly SampledTable[] {
  return sampled;
}

/** The row type of a table. */
export type RowIn<T> = T extends Table<infer R> ? R : never;

/**
 * Declares a table. The tenant is not among its columns; the store adds it. A table with a sample row needs no entry in
 * the tests of storage.
 */
export function table<C extends Columns>(name: string, columns: C, sample?: Sample<RowOf<C>>): Table<RowOf<C>> {
  const entries = Object.entries(columns);
  const declared: Table<RowOf<C>> = {
    name,
    columns: entries.map(([column]) => column).join(", "),
    decode(row) {
      const decoded: Record<string, unknown> = {};
      for (const [column, kind] of entries) {
        try {
          decoded[column] = kind.decode(row[column] as Param);
        } catch (error) {
          throw new Error(`${name}.${column}: ${(error as Error).message}`);
        }
      }
      return decoded as RowOf<C>;
    },
    encode(row) {
      const values = new Array<Param>(entries.length);
      for (let i = 0; i < entries.length; i++) {
        const [column, kind] = entries[i] as (typeof entries)[number];
        values[i] = kind.encode((row as Record<string, unknown>)[column]);
      }
      return values;
    },
  };
  if (sample !== undefined) sampled.push({ name, row: (given) => declared.encode(sample(given)) });
  return declared;
}

/**
 * Kind of a table for inserts. Rows of a `log` are only appended and read only by statements that name the table, so a
 * commit may insert them together. Rows of a `ledger` also have random keys: an existing key means a repeated write of
 * the same row, and the insert is skipped.
 */
type AddedTo = "table" | "log" | "ledger";

/** Declares an insert. Its batch refuses with conflict if the key exists, except for a ledger. */
export function insertInto<R>(into: Table<R>, kind: AddedTo = "table"): (store: TenantStore, row: R) => WriteOp {
  const sql = kind === "ledger" ? `${insertSql(into)} ON CONFLICT DO NOTHING` : insertSql(into);
  const statement = tenantSql(`${into.name}_insert`, sql, kind === "table" ? null : into.name);
  return (store, row) => store.op(statement, into.encode(row));
}

/** Declares an insert that replaces a row with the same key. Never causes a refusal. */
export function upsertInto<R>(
  into: Table<R>,
  key: readonly (keyof R & string)[],
): (store: TenantStore, row: R) => WriteOp {
  const changes = into.columns
    .split(", ")
    .filter((name) => !(key as readonly string[]).includes(name))
    .map((name) => `${name} = excluded.${name}`);
  const statement = tenantSql(
    `${into.name}_upsert`,
    `${insertSql(into)} ON CONFLICT (tenant_id, ${key.join(", ")}) DO UPDATE SET ${changes.join(", ")}`,
  );
  return (store, row) => store.op(statement, into.encode(row));
}

function insertSql({ name, columns }: Pick<Table<never>, "name" | "columns">): string {
  return `INSERT INTO ${name} (tenant_id, ${columns}) VALUES (:tenant, ${columns.replace(/\w+/g, "?")})`;
}

/** Declares the lookup of a row by its key. */
export function selectOne<R>(
  from: Table<R>,
  key: readonly (keyof R & string)[],
): (store: TenantStore, ...values: readonly Param[]) => Promise<R | undefined> {
  const statement: Statement = tenantSql(
    `${from.name}_by_${key.join("_")}`,
    `SELECT ${from.columns} FROM ${from.name} WHERE tenant_id = :tenant AND ${key.map((name) => `${name} = ?`).join(" AND ")}`,
  );
  return async (store, ...values) => {
    const [row] = await store.read(statement, ...values);
    return row && from.decode(row);
  };
}
