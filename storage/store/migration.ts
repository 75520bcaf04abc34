import { type Dialect, renderSchema } from "./dialect.ts";

/** A schema statement: shared by both engines, separate for each, or for one alone. */
export type Step = string | Readonly<Partial<Record<Dialect, string>>>;

/**
 * One step of the schema. Revisions are four digits: 0000 is the baseline, 0006 to 0018 belong to commerce, and later changes start at
 * 0100. Those of a plugin begin with its name, as `notes_0001`, so that they come after all others.
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
  /** Returns the applied revisions; none for a new database. */
  revisions(): Promise<string[]>;
  /**
   * Applies changes in one transaction that excludes every other session. `choose` gets the revisions as of that
   * transaction. Returns true if there was a change.
   */
  change(choose: (revisions: string[]) => readonly SchemaChange[]): Promise<boolean>;
  close(): Promise<void>;
}

/** Returns the statements of a change for one engine. */
export function statementsOf(steps: readonly Step[], dialect: Dialect): string[] {
  return steps.flatMap((step) => {
    const text = typeof step === "string" ? step : step[dialect];
    return text === undefined ? [] : [renderSchema(text, dialect)];
  });
}

/** Prefixes the engine's error with the revision of the failed step, which names the plugin if it is a plugin's. */
export function inRevision(revision: string, error: unknown): unknown {
  if (error instanceof Error) error.message = `migration ${revision}: ${error.message}`;
  return error;
}

/** True for the revisions that are reserved for the plugin commerce. */
export function isReserved(revision: string): boolean {
  return /^00(0[6-9]|1[0-8])$/.test(revision);
}

/** Returns the tables that a migration creates. */
export function createdTables({ up }: Migration): string[] {
  const text = [...statementsOf(up, "sqlite"), ...statementsOf(up, "postgres")].join("\n");
  const found = text.matchAll(/\bCREATE\s+(?:VIRTUAL\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(\w+)/gi);
  return [...new Set([...found].map(([, name = ""]) => name.toLowerCase()))];
}

/** Creates the table of applied revisions, for the sessions of both engines. */
export const revisionsTable =
  "CREATE TABLE IF NOT EXISTS schema_revisions (revision TEXT PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)";
