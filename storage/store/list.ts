import { SvcError } from "../../bus/errors.ts";
import { readCursor, writeCursor } from "./cursor.ts";
import { type Row, type Statement, tenantSql } from "./statements.ts";
import type { TenantStore } from "./store.ts";
import type { Table } from "./table.ts";

// Lists, newest first, in pages. A page goes on after the key of the row before it, so that its price is the same however far
// down it is, and rows that come meanwhile shift nothing. Each combination of filters is a statement of its own, so that each finds
// its rows by an index where there is one. SQLite has to be told which: it takes a tenant for ten rows, and would read them all.

/** Which rows are asked for: all that match every filter that is given, in [since, until), epoch milliseconds. */
export type ListFilter<Name extends string> = { readonly [N in Name]?: string | undefined } & {
  readonly since?: number | undefined;
  readonly until?: number | undefined;
};

/** One page. `next_cursor` is null on the last. */
export interface Page<R> {
  readonly rows: R[];
  readonly next_cursor: string | null;
}

/** A list over the rows of a table. */
export interface List<R, Name extends string> {
  /** One page after `cursor`. Refuses with invalid_cursor and invalid_window. */
  page(store: TenantStore, filter: ListFilter<Name>, cursor: string | null, limit: number): Promise<Page<R>>;
  /**
   * Every row that is there when its page is read, newest first, in pages. The first page is read by the first `next()`, so that a
   * caller can still answer with a refusal.
   */
  all(store: TenantStore, filter: ListFilter<Name>): AsyncGenerator<R[], void, void>;
}

/** Rows of one page of `all`. */
const pageRows = 500;

/** How the rows lie that a list is filtered by. */
interface ListOptions<Name extends string> {
  /**
   * Values that so many rows have that the newest of them are found without an index. That of the column leaves those rows out, since
   * every turn writes some.
   */
  readonly common?: { readonly [N in Name]?: readonly string[] };
  /** The indexes by tenant, a column, `ts` and `id`, the one first that leaves the fewest rows. */
  readonly indexes?: { readonly [N in Name]?: string };
  /** Columns without an index: a page by one of them may pass over many rows. */
  readonly unindexed?: readonly Name[];
  /** Columns that may be long: a page ends before the row with which they would have more than `bytesMax`, but for its first. */
  readonly long?: { readonly columns: readonly string[]; readonly bytesMax: number };
}

/** So few rows are read without asking how long they are. */
const fewRows = 4;

/**
 * Declares a list over rows that have `ts` and `id`, with an index for the filters, but for those that the options name. A page that
 * may pass over many rows, by a column without an index or by several, is read where that keeps nobody waiting.
 */
export function list<R extends { readonly ts: number; readonly id: string }, const Name extends keyof R & string>(
  of: Table<R>,
  filters: readonly Name[],
  { common = {}, indexes = {}, unindexed = [], long }: ListOptions<Name> = {},
): List<R, Name> {
  const commonOf = (name: Name): readonly string[] => common[name] ?? [];
  const statements = new Map<string, Statement>();
  /** How long the rows of a page are. */
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
    // From where both begin: rows that are newer than the window are not passed over.
    const start = until <= before[0] ? [until, ""] : before;
    return store[isLong ? "readLong" : "read"](statement, ...values, ...start, since, limit);
  }

  /** How many of so many rows fit on a page. */
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
      // The row after the page, if there is one, says that there is another page.
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

/** Before this key comes everything. */
const top: readonly [ts: number, id: string] = [Number.MAX_SAFE_INTEGER, ""];

/** A filter of a statement; the statement's name is made of the keys. */
interface Condition {
  readonly key: string;
  readonly sql: string;
  /** The column whose index has the rows; null where it has none of the value. */
  readonly name: string | null;
}

/** The ways in which a column can be filtered by. For values that are not common the SQL says so: only then is the index used. */
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

/** Every choice of at most one of each of these lists, in their order. */
function combinations<T>(lists: readonly (readonly T[])[]): T[][] {
  const chosen: T[][] = [[]];
  for (const list of lists) chosen.push(...chosen.flatMap((before) => list.map((one) => [...before, one])));
  return chosen;
}
