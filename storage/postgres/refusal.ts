import { DatabaseError } from "pg";
import { SvcError } from "../../bus/errors.ts";
import { unexpectedCount } from "./guard.ts";

/** SQLSTATE classes of errors in the statement or its values, which a retry does not cure. */
const defect = /^(22|42|0A|2F|38|39|08P01)/;
/** Within those, a missing table, column or function: the schema is behind, and an operator must migrate it. */
const schemaMissing = /^(42P01|42703|42883)/;

/** Maps a failure of Postgres, or of the connection to it, to a refusal. */
export function postgresRefusal(error: unknown, statement: string): SvcError {
  if (error instanceof SvcError) return error;
  const state = sqlState(error);
  if (state === unexpectedCount || state.startsWith("23") || isTransient(error))
    return new SvcError("conflict", { subject: statement }, { cause: error });
  if (defect.test(state) && !schemaMissing.test(state)) return new SvcError("internal_error", {}, { cause: error });
  return new SvcError("storage_unavailable", {}, { cause: error });
}

/** True if the transaction was rolled back because of concurrent ones, so that a retry may succeed. */
export function isTransient(error: unknown): boolean {
  return ["40001", "40P01"].includes(sqlState(error));
}

/** True if the server ended the connection on command: it shuts down, or an operator ended the session. */
export function isEndedByServer(error: unknown): boolean {
  return sqlState(error) === "57P01";
}

/** True if no connection was made, because the server is away, starts or shuts down. */
export function isUnreachable(error: unknown): boolean {
  if (error instanceof DatabaseError) return ["57P01", "57P02", "57P03"].includes(sqlState(error));
  const { code = "", message } = error as Error & { code?: string };
  return /^E[A-Z]+$/.test(code) || message === "Connection terminated unexpectedly";
}

/** True if the server takes no writes: it is a standby, or was set read-only. */
export function isReadOnly(error: unknown): boolean {
  return sqlState(error) === "25006";
}

/**
 * True if the connection's prepared statements are invalid: a pooler has switched servers, or the schema has changed.
 * The transaction was rolled back.
 */
export function isStalePlan(error: unknown): boolean {
  const state = sqlState(error);
  return state === "26000" || state === "42P05" || (state === "0A000" && /cached plan/.test((error as Error).message));
}

function sqlState(error: unknown): string {
  return error instanceof DatabaseError ? (error.code ?? "") : "";
}
