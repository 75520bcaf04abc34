import { type Dialect, renderSchema } from "./dialect.ts";

/** One statement of the schema: the same for both engines, or one for each, or for one alone. */
export type Step = string | Readonly<Partial<Record<Dialect, string>>>;

/**
 * One step of the schema. Revisions are four digits, of which 0006 to 0018 belong to the commerce layer; those of a plugin begin
 * with its name, as `notes_0001`, so that they come after all others.
 */
export interface Migration {
  readonly revision: string;
  readonly name: string;
  readonly up: readonly Step[];
  readonly down: readonly Step[];
}

/** A migration to apply or to undo. */
export interface SchemaChange {
  readonly revision: string;
  readonly name: string;
  readonly direction: "up" | "down";
  readonly steps: readonly Step[];
}

/** A connection for changing the schema of one engine. */
export interface SchemaSession {
  /** The revisions that the database has; none when it is new. */
  revisions(): Promise<string[]>;
  /**
   * Makes changes in one transaction that excludes every other session: `choose` is given the revisions as they are then.
   * Answers whether there was a change to make.
   */
  change(choose: (revisions: string[]) => readonly SchemaChange[]): Promise<boolean>;
  close(): Promise<void>;
}

/** The statements of a change for one engine. */
export function statementsOf(steps: readonly Step[], dialect: Dialect): string[] {
  return steps.flatMap((step) => {
    const text = typeof step === "string" ? step : step[dialect];
    return text === undefined ? [] : [renderSchema(text, dialect)];
  });
}

/** What the engine has said of a step, with the revision that it belongs to: it may be a plugin's, whose name it begins with. */
export function inRevision(revision: string, error: unknown): unknown {
  if (error instanceof Error) error.message = `migration ${revision}: ${error.message}`;
  return error;
}

/** The tables that a migration makes. */
export function createdTables({ up }: Migration): string[] {
  const text = [...statementsOf(up, "sqlite"), ...statementsOf(up, "postgres")].join("\n");
  const found = text.matchAll(/\bCREATE\s+(?:VIRTUAL\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(\w+)/gi);
  return [...new Set([...found].map(([, name = ""]) => name.toLowerCase()))];
}

/** Where an engine keeps the revisions it has, written by both engines' sessions. */
export const revisionsTable =
  "CREATE TABLE IF NOT EXISTS schema_revisions (revision TEXT PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)";
