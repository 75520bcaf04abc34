import { type Dialect, storeClock } from "./dialect.ts";

/**
 * A parameter or column value on both engines. Booleans are 0 and 1, times are epoch milliseconds, and JSON is text.
 */
export type Param = string | number | null;
/** A row as both engines return it, by column. */
export type Row = Record<string, Param>;

/**
 * SQL for both engines, or a text per engine where they differ. `?` marks a parameter. `:tenant` marks the tenant,
 * which the store fills in, and `:now` the time of the store's clock. `INDEXED BY` applies to SQLite, whose planner
 * does not know row counts, and is removed for Postgres.
 */
type SqlText = string | Record<Dialect, string>;

/** A declared statement, with a text for each engine. */
export interface Statement {
  readonly name: string;
  readonly text: Readonly<Record<Dialect, string>>;
  /** Positions of the tenant among the parameters; empty for a statement of the service itself. */
  readonly tenantAt: readonly number[];
  /** Number of parameters, including the tenant's. */
  readonly paramCount: number;
  /** True if it returns rows: a SELECT, or a change with RETURNING. */
  readonly returnsRows: boolean;
  /**
   * The table to which the statement appends one row, if the time of the insert within a commit does not matter. The
   * writer may then insert it together with rows of other batches, before the next statement that names the table. Null
   * for every other statement.
   */
  readonly addsTo: string | null;
}

/** Postgres truncates names of prepared statements at 63 bytes, and the engine adds a suffix to some. */
const nameCharsMax = 60;

const declared = new Map<string, Statement>();

function declare(name: string, text: SqlText, addsTo: string | null = null): Statement {
  if (declared.has(name)) throw new Error(`statement ${name} is declared twice`);
  if (name.length > nameCharsMax) throw new Error(`the name of statement ${name} is too long`);
  const texts = typeof text === "string" ? { sqlite: text, postgres: text } : text;
  const { tenantAt, paramCount } = markers(texts.sqlite);
  const other = markers(texts.postgres);
  if (String(tenantAt) !== String(other.tenantAt) || paramCount !== other.paramCount)
    throw new Error(`statement ${name} must have the same parameters in the same order on both engines`);
  const statement: Statement = {
    name,
    text: {
      sqlite: filled(texts.sqlite, "sqlite"),
      postgres: numbered(filled(texts.postgres, "postgres")),
    },
    tenantAt,
    paramCount,
    returnsRows: /^\s*(SELECT|WITH)\b|\bRETURNING\b/i.test(texts.sqlite),
    addsTo,
  };
  declared.set(name, statement);
  return statement;
}

/**
 * Declares a statement on rows of one tenant. It must name `:tenant` and runs through `store.tenant(id)` only. With
 * `addsTo`, the parameters of the row are the last parentheses of its text, after VALUES.
 */
export function tenantSql(name: string, text: SqlText, addsTo: string | null = null): Statement {
  const statement = declare(name, text, addsTo);
  if (statement.tenantAt.length === 0)
    throw new Error(`statement ${name} does not name :tenant, so it must be declared with systemSql`);
  return statement;
}

/** Declares a statement that the service runs over all tenants: recovery, sweeps, counters. */
export function systemSql(name: string, text: SqlText): Statement {
  const statement = declare(name, text);
  if (statement.tenantAt.length > 0)
    throw new Error(`statement ${name} names :tenant, so it must be declared with tenantSql`);
  return statement;
}

/**
 * Returns this thread's copy of a statement that another thread sent: the same object for every statement of that name.
 */
export function learnStatement(statement: Statement): Statement {
  const known = declared.get(statement.name);
  if (known === undefined) declared.set(statement.name, statement);
  return known ?? statement;
}

/** Returns a statement by name that this thread declared or learned from another. */
export function statementNamed(name: string): Statement {
  const statement = declared.get(name);
  if (!statement) throw new Error(`no statement with the name ${name} is declared`);
  return statement;
}

/** Returns all declared statements, for the test that checks each one against both engines. */
export function allStatements(): readonly Statement[] {
  return [...declared.values()];
}

/** Returns the number of parameters in a text, and the positions of the tenant. */
function markers(text: string): { tenantAt: number[]; paramCount: number } {
  const tenantAt: number[] = [];
  let paramCount = 0;
  for (const [marker] of text.matchAll(/\?|:tenant\b/g)) {
    if (marker === ":tenant") tenantAt.push(paramCount);
    paramCount++;
  }
  return { tenantAt, paramCount };
}

function filled(text: string, dialect: Dialect): string {
  const marked = text.replaceAll(":tenant", "?").replace(/:now\b/g, storeClock[dialect]);
  return dialect === "sqlite" ? steady(marked) : marked.replace(/ INDEXED BY \w+/g, "");
}

/**
 * Puts a plus sign, which has no effect, before parameters after `=` or LIMIT. SQLite otherwise uses the bound value in
 * its plan and reparses the statement for each new value, in 10 to 50 microseconds. (`sqlite3ExprIsInteger` and
 * `sqlite3_clear_bindings` in its source.)
 */
function steady(text: string): string {
  return text.replace(/(=|\bLIMIT)(\s*)\?/g, "$1$2+?");
}

function numbered(text: string): string {
  let count = 0;
  return text.replaceAll("?", () => `$${++count}`);
}
