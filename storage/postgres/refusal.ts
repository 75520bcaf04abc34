import { DatabaseError } from "pg";
import { SvcError } from "../../bus/errors.ts";
import { unexpectedCount } from "./guard.ts";

/** Classes of SQLSTATE: the statement or its values are wrong, whoever asks and whenever. */
const defect = /^(22|42|0A|2F|38|39|08P01)/;
/** Of those, a table, column or function that is missing: the schema is behind, an operator's matter. */
const schemaMissing = /^(42P01|42703|42883)/;

/** What a failure of Postgres, or of the way there, means to the caller. */
export function postgresRefusal(error: unknown, statement: string): SvcError {
  if (error instanceof SvcError) return error;
  const state = sqlState(error);
  if (state === unexpectedCount || state.startsWith("23") || isTransient(error))
    return new SvcError("conflict", { subject: statement }, { cause: error });
  if (defect.test(state) && !schemaMissing.test(state)) return new SvcError("internal_error", {}, { cause: error });
  return new SvcError("storage_unavailable", {}, { cause: error });
}

/** Whether the transaction was undone because others were in its way, and may succeed when it is run again. */
export function isTransient(error: unknown): boolean {
  return ["40001", "40P01"].includes(sqlState(error));
}

/** Whether the server takes no writes: it is a standby, or its operator has said so. */
export function isReadOnly(error: unknown): boolean {
  return sqlState(error) === "25006";
}

/**
 * Whether the connection's prepared statements are not what we take them for: a pooler has moved us to another server, or the
 * schema has changed. The transaction was undone.
 */
export function isStalePlan(error: unknown): boolean {
  const state = sqlState(error);
  return state === "26000" || state === "42P05" || (state === "0A000" && /cached plan/.test((error as Error).message));
}

function sqlState(error: unknown): string {
  return error instanceof DatabaseError ? (error.code ?? "") : "";
}
