import { SvcError } from "../../bus/errors.ts";
import { readCursor, writeCursor } from "./cursor.ts";
import { type Param, type Statement, tenantSql } from "./statements.ts";
import type { TenantStore } from "./store.ts";
import type { Table } from "./table.ts";

// Lists, newest first, in pages. A page goes on after the key of the row before it, so that its price is the same however far
// down it is, and rows that come meanwhile shift nothing. Each combination of filters is a statement of its own, so that each finds
// its rows by an index where there is one.

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

/**
 * Declares a list over rows that have `ts` and `id`, with an index for each of the filters. A page by at most one filter is read
 * where it is asked for; one by several may pass over many rows, and is read where that keeps nobody waiting.
 */
export function list<R extends { readonly ts: number; readonly id: string }, const Name extends keyof R & string>(
  of: Table<R>,
  filters: readonly Name[],
): List<R, Name> {
  const statements = new Map<string, Statement>(
    combinations(filters).map((names) => [names.join(), declarePage(of, names)]),
  );

  async function read(
    store: TenantStore,
    filter: ListFilter<Name>,
    before: readonly [ts: number, id: string],
    limit: number,
    inPool: boolean,
  ): Promise<R[]> {
    const { since = 0, until = Number.MAX_SAFE_INTEGER } = filter;
    if (until <= since) throw new SvcError("invalid_window");
    const names = filters.filter((name) => filter[name] !== undefined);
    const values: Param[] = names.map((name) => filter[name] as string);
    const params = [...values, ...before, since, until, limit];
    const statement = statements.get(names.join()) as Statement;
    const rows = await store[inPool || names.length > 1 ? "readLong" : "read"](statement, ...params);
    return rows.map((row) => of.decode(row));
  }

  return {
    async page(store, filter, cursor, limit) {
      const before = cursor === null ? top : readCursor(cursor, ["number", "string"]);
      // The row after the page, if there is one, says that there is another page.
      const rows = await read(store, filter, before, limit + 1, false);
      const more = rows.length > limit;
      if (more) rows.pop();
      const last = rows.at(-1);
      return { rows, next_cursor: more && last ? writeCursor([last.ts, last.id]) : null };
    },

    async *all(store, filter) {
      for (let before = top; ; ) {
        const rows = await read(store, filter, before, pageRows, true);
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

function declarePage<R>(of: Table<R>, filters: readonly string[]): Statement {
  const conditions = filters.map((name) => `${name} = ? AND `).join("");
  return tenantSql(
    [of.name, "page", ...filters].join("_"),
    `SELECT ${of.columns} FROM ${of.name} WHERE tenant_id = :tenant AND ${conditions}(ts, id) < (?, ?) AND ts >= ? AND ts < ?
     ORDER BY ts DESC, id DESC LIMIT ?`,
  );
}

/** Every choice of these, each in their order. */
function combinations<T>(all: readonly T[]): T[][] {
  const chosen: T[][] = [[]];
  for (const one of all) chosen.push(...chosen.map((before) => [...before, one]));
  return chosen;
}
