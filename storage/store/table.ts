import { type Param, type Row, type Statement, tenantSql } from "./statements.ts";
import type { TenantStore, WriteOp } from "./store.ts";

// A table as the code knows it, declared once: the type of its rows, how one is read, checked and written, and the statements that
// every table needs. The schema itself is in the migrations, where it has a history.

/** What a column holds. */
export interface Column<T> {
  /** Throws when the store holds something else: a defect of the code that wrote it, or of a migration. */
  decode(value: Param): T;
  encode(value: T): Param;
}

type Columns = Readonly<Record<string, Column<unknown>>>;

/** The rows of a table with these columns. */
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

/** JSON text. That it has the shape of `T` is the word of whoever wrote it. */
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
  /** The columns, as a SELECT names them. */
  readonly columns: string;
  /** A row of the store, checked. Throws when it is not one of this table. */
  decode(row: Row): R;
  /** Values for the columns, in their order. */
  encode(row: R): Param[];
}

/** A row of a table as tests fill it in: under the guessable names that the columns of other samples have too. */
export type Sample<R> = (given: SampleGiven) => R;

/** What a sample row is made with. */
export interface SampleGiven {
  /** Stands in every column whose text nobody should read but its tenant. */
  readonly text: string;
  /** The key of the tenant's thread. */
  readonly threadKey: number;
}

/** A declared table with a sample row. */
export interface SampledTable {
  readonly name: string;
  /** Values for the columns, in their order. */
  readonly row: (given: SampleGiven) => readonly Param[];
}

const sampled: SampledTable[] = [];

/** The declared tables that have a sample row, for the test that holds the rows of one tenant against the statements of another. */
export function sampledTables(): readonly SampledTable[] {
  return sampled;
}

/** The rows of a table. */
export type RowIn<T> = T extends Table<infer R> ? R : never;

/** Declares a table. Its tenant is the store's and no column. A table with a sample row needs no entry in the tests of storage. */
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
 * What a table is to who adds rows. Those of a `log` are only added, and read by no statement that does not name the table: they
 * are added together where many are written at once. Those of a `ledger` are so too and have random keys: one that is there is the same
 * row, sent again by who was not told that it was written, and nothing is refused.
 */
type AddedTo = "table" | "log" | "ledger";

/** Declares how a row is added. The batch refuses with conflict when its key is taken, but for a ledger. */
export function insertInto<R>(into: Table<R>, kind: AddedTo = "table"): (store: TenantStore, row: R) => WriteOp {
  const sql = kind === "ledger" ? `${insertSql(into)} ON CONFLICT DO NOTHING` : insertSql(into);
  const statement = tenantSql(`${into.name}_insert`, sql, kind === "table" ? null : into.name);
  return (store, row) => store.op(statement, into.encode(row));
}

/** Declares how a row is added, or takes the place of the one that has its key. The batch refuses nothing. */
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

/** Declares how the one row of a key is found. */
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
