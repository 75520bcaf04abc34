import type { Statement } from "../store/statements.ts";

/** The SQLSTATE that `svc_expect` raises; the baseline makes the function. */
export const unexpectedCount = "SV001";

/**
 * Returns the statement's text with its expected row count as one more parameter. A different count raises an error in
 * the server, which rolls back the transaction.
 */
export function guarded(statement: Statement): string {
  const text = statement.text.postgres;
  const check = `svc_expect(count(*), $${statement.paramCount + 1}::bigint)`;
  if (!statement.returnsRows) return `WITH changed AS (${text} RETURNING 1) SELECT ${check} FROM changed`;
  // The check is a separate CTE: joined to the rows alone it would not run when there are none.
  return `WITH changed AS (${text}), guard AS MATERIALIZED (SELECT ${check} AS held FROM changed)
    SELECT changed.* FROM guard LEFT JOIN changed ON true WHERE guard.held`;
}
