import { type Dialect, storeClock } from "./dialect.ts";

/** What a statement takes and gives, on both engines. Booleans are 0 and 1, times are epoch milliseconds, JSON is text. */
export type Param = string | number | null;
/** A row as both engines answer it, by column. */
export type Row = Record<string, Param>;

/**
 * SQL written once; a text for each engine where they do not read it alike. `?` marks a parameter, `:tenant` the tenant, which the
 * store fills in, and `:now` the time by the store's own clock. `INDEXED BY` is SQLite's alone, whose planner knows nothing of how many rows
 * there are; Postgres is not told.
 */
type SqlText = string | Record<Dialect, string>;

/** A declared statement, in the words of each engine. */
export interface Statement {
  readonly name: string;
  readonly text: Readonly<Record<Dialect, string>>;
  /** Where among the parameters the tenant goes; empty when the statement belongs to the service and not to a tenant. */
  readonly tenantAt: readonly number[];
  /** Parameters with the tenant's. */
  readonly paramCount: number;
  /** Whether it answers rows: a SELECT, or a change with RETURNING. */
  readonly returnsRows: boolean;
  /**
   * The table to which it adds one row, where the row's place among what else is written does not matter: it may be added with
   * those of other batches, after whatever does not name the table. Null for every other statement.
   */
  readonly addsTo: string | null;
}

/** Postgres cuts names of prepared statements at 63 bytes, and the engine adds a mark to some. */
const nameCharsMax = 60;

const declared = new Map<string, Statement>();

function declare(name: string, text: SqlText, addsTo: string | null = null): Statement {
  if (declared.has(name)) throw new Error(`statement ${name} is declared twice`);
  if (name.length > nameCharsMax) throw new Error(`the name of statement ${name} is too long`);
  const texts = typeof text === "string" ? { sqlite: text, postgres: text } : text;
  const { tenantAt, paramCount } = markers(texts.sqlite);
  const other = markers(texts.postgres);
  if (String(tenantAt) !== String(other.tenantAt) || paramCount !== other.paramCount)
    throw new Error(`statement ${name} takes its parameters in another order on the other engine`);
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
 * Declares a statement on rows of one tenant: it names `:tenant` and can be run through `store.tenant(id)` only. `addsTo` as the
 * statement has it; behind VALUES its text has the one row's parameters and no other parentheses.
 */
export function tenantSql(name: string, text: SqlText, addsTo: string | null = null): Statement {
  const statement = declare(name, text, addsTo);
  if (statement.tenantAt.length === 0) throw new Error(`statement ${name} does not name :tenant`);
  return statement;
}

/** Declares a statement that the service itself makes, over all tenants: recovery, sweeps, counters. */
export function systemSql(name: string, text: SqlText): Statement {
  const statement = declare(name, text);
  if (statement.tenantAt.length > 0) throw new Error(`statement ${name} names :tenant`);
  return statement;
}

/** This thread's own copy of a statement of another one: the same for all of its name. */
export function learnStatement(statement: Statement): Statement {
  const known = declared.get(statement.name);
  if (known === undefined) declared.set(statement.name, statement);
  return known ?? statement;
}

/** Finds a statement that was declared on this thread, or that another has told it. */
export function statementNamed(name: string): Statement {
  const statement = declared.get(name);
  if (!statement) throw new Error(`no statement is declared under the name ${name}`);
  return statement;
}

/** All declared statements, for the test that holds each of them against both engines. */
export function allStatements(): readonly Statement[] {
  return [...declared.values()];
}

/** How many parameters a text takes, and which of them are the tenant. */
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
 * SQLite looks at what is bound to a parameter that stands alone behind `=` or LIMIT when it chooses a plan, and parses the statement again
 * each time another value is: 10 to 50 microseconds. Behind a plus sign, which does nothing else, it does not.
 * (`sqlite3ExprIsInteger` and `sqlite3_clear_bindings` in its source.)
 */
function steady(text: string): string {
  return text.replace(/(=|\bLIMIT)(\s*)\?/g, "$1$2+?");
}

function numbered(text: string): string {
  let count = 0;
  return text.replaceAll("?", () => `$${++count}`);
}
