import { SvcError } from "../../bus/errors.ts";
import { readCursor, writeCursor } from "./cursor.ts";
import { type Row, type Statement, tenantSql } from "./statements.ts";
import type { TenantStore } from "./store.ts";
import type { Table } from "./table.ts";

// Lists are read newest first, in pages. A page continues after the sort key of the previous row. Its cost is therefore
// independent of its depth, and concurrent inserts shift nothing. Each combination of filters is a separate statement,
// so that each can use its index. SQLite must be given the index: it estimates ten rows per tenant and would scan them
// all.

/** The filters of a list: rows match all given columns and have a `ts` in [since, until), in epoch milliseconds. */
export type ListFilter<Name extends string> = { readonly [N in Name]?: string | undefined } & {
  readonly since?: number | undefined;
  readonly until?: number | undefined;
};

/** One page. `next_cursor` is null on the last one. */
export interface Page<R> {
  readonly rows: R[];
  readonly next_cursor: string | null;
}

/** A list over the rows of a table. */
export interface List<R, Name extends string> {
  /** Returns the page after `cursor`. Refuses with invalid_cursor and invalid_window. */
  page(store: TenantStore, filter: ListFilter<Name>, cursor: string | null, limit: number): Promise<Page<R>>;
  /**
   * Yields all rows in pages, newest first, each page as of the time of its read. The first `next()` reads the first
   * page, so that its caller can still reply with a refusal.
   */
  all(store: TenantStore, filter: ListFilter<Name>): AsyncGenerator<R[], void, void>;
}

/** Rows of one page of `all`. */
const pageRows = 500;

/** Filters and indexes of a list. */
interface ListOptions<Name extends string> {
  /**
   * Frequent values of a column, whose newest rows are found without an index. The index of the column excludes them,
   * because every turn writes some.
   */
  readonly common?: { readonly [N in Name]?: readonly string[] };
  /** Indexes by tenant, column, `ts` and `id`, the most selective first. */
  readonly indexes?: { readonly [N in Name]?: string };
  /** Columns without an index: a page filtered by one may skip many rows. */
  readonly unindexed?: readonly Name[];
  /** Columns with long values: a page ends before their total exceeds `bytesMax`, but has at least one row. */
  readonly long?: { readonly columns: readonly string[]; readonly bytesMax: number };
}

/** Page size up to which the length of the rows is not checked. */
const fewRows = 4;

/**
 * Declares a list over rows with `ts` and `id`. Each filter has an index unless the options say otherwise. A page that
 * may skip many rows, by a column without an index or by several columns, is a long read.
 */
export function list<R extends { readonly ts: number; readonly id: string }, const Name extends keyof R & string>(
  of: Table<R>,
  filters: readonly Name[],
  { common = {}, indexes = {}, unindexed = [], long }: ListOptions<Name> = {},
): List<R, Name> {
  const commonOf = (name: Name): readonly string[] => common[name] ?? [];
  const statements = new Map<string, Statement>();
  /** Statements that return the lengths of a page's rows. */
  const lengths = new Map<string, Statement>();
  for (const conditions of combinations(filters.map((name) => conditionsOn(name, commonOf(name))))) {
    const keys = conditions.map(({ key }) => key).join();
    const filtered = conditions.flatMap(({ name }) => name ?? []);
    const [, index] = Object.entries<string | undefined>(indexes).find(([name]) => filtered.includes(name)) ?? [];
    statements.set(keys, declarePage(of.name, "page", of.columns, conditions, index));
    if (long) lengths.set(keys, declarePage(of.name, "lengths", lengthOf(long.columns), conditions, index));
  }

  async function read(
    from: ReadonlyMap<string, Statement>,
    store: TenantStore,
    filter: ListFilter<Name>,
    before: readonly [ts: number, id: string],
    limit: number,
    inPool: boolean,
  ): Promise<Row[]> {
    const { since = 0, until = Number.MAX_SAFE_INTEGER } = filter;
    if (until <= since) throw new SvcError("invalid_window");
    const names = filters.filter((name) => filter[name] !== undefined);
    const values = names.map((name) => filter[name] as string);
    const keys = names.map((name, at) => keyOf(name, commonOf(name), values[at] as string));
    const statement = from.get(keys.join()) as Statement;
    const isLong = inPool || names.length > 1 || names.some((name) => unindexed.includes(name));
    // Starts at the newer end of the window, so that newer rows are not scanned.
    const start = until <= before[0] ? [until, ""] : before;
    return store[isLong ? "readLong" : "read"](statement, ...values, ...start, since, limit);
  }

  /** Returns how many of `limit` rows fit on a page. */
  async function fitting(
    store: TenantStore,
    filter: ListFilter<Name>,
    before: readonly [ts: number, id: string],
    limit: number,
  ): Promise<number> {
    if (!long || limit <= fewRows) return limit;
    const rows = await read(lengths, store, filter, before, limit, false);
    let bytes = 0;
    for (const [at, row] of rows.entries()) {
      bytes += Number(row.bytes);
      if (bytes > long.bytesMax) return Math.max(1, at);
    }
    return limit;
  }

  return {
    async page(store, filter, cursor, limit) {
      const before = cursor === null ? top : readCursor(cursor, ["number", "string"]);
      const size = await fitting(store, filter, before, limit);
      // One row more than the page shows whether another page follows.
      const rows = (await read(statements, store, filter, before, size + 1, false)).map(of.decode);
      const more = rows.length > size;
      if (more) rows.pop();
      const last = rows.at(-1);
      return { rows, next_cursor: more && last ? writeCursor([last.ts, last.id]) : null };
    },

    async *all(store, filter) {
      for (let before = top; ; ) {
        const rows = (await read(statements, store, filter, before, pageRows, true)).map(of.decode);
        const last = rows.at(-1);
        if (last) yield rows;
        if (!last || rows.length < pageRows) return;
        before = [last.ts, last.id];
      }
    },
  };
}

/** A sort key above all rows. */
const top: readonly [ts: number, id: string] = [Number.MAX_SAFE_INTEGER, ""];

/** A filter of a statement. The keys of all filters form the statement's name. */
interface Condition {
  readonly key: string;
  readonly sql: string;
  /** The column whose index is used; null if the index excludes the value. */
  readonly name: string | null;
}

/**
 * Returns the conditions for a column. The condition for rare values repeats the index's WHERE clause, as the engines
 * require.
 */
function conditionsOn(name: string, common: readonly string[]): Condition[] {
  const sql = `${name} = ?`;
  if (common.length === 0) return [{ key: name, sql, name }];
  const rare = common.map((value) => `${name} <> '${value}'`).join(" AND ");
  return [
    { key: name, sql, name: null },
    { key: `rare_${name}`, sql: `${sql} AND ${rare}`, name },
  ];
}

function keyOf(name: string, common: readonly string[], value: string): string {
  return common.length === 0 || common.includes(value) ? name : `rare_${name}`;
}

function declarePage(
  table: string,
  what: string,
  columns: string,
  conditions: readonly Condition[],
  index: string | undefined,
): Statement {
  const rows = ["tenant_id = :tenant", ...conditions.map(({ sql }) => sql), "(ts, id) < (?, ?) AND ts >= ?"].join(
    " AND ",
  );
  const source = index === undefined ? table : `${table} INDEXED BY ${index}`;
  return tenantSql(
    [table, what, ...conditions.map(({ key }) => key)].join("_"),
    `SELECT ${columns} FROM ${source} WHERE ${rows} ORDER BY ts DESC, id DESC LIMIT ?`,
  );
}

function lengthOf(columns: readonly string[]): string {
  return `${columns.map((name) => `COALESCE(OCTET_LENGTH(${name}), 0)`).join(" + ")} AS bytes`;
}

/** Returns every combination of at most one element per list, in their order. */
function combinations<T>(lists: readonly (readonly T[])[]): T[][] {
  const chosen: T[][] = [[]];
  for (const list of lists) chosen.push(...chosen.flatMap((before) => list.map((one) => [...before, one])));
  return chosen;
}
