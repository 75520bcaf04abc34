import type { PostgresConfig } from "../store/config.ts";
import { inRevision, revisionsTable, type SchemaSession, statementsOf } from "../store/migration.ts";
import { connectToSchema } from "./connection.ts";

/** An arbitrary number for the advisory lock that serializes schema changes of a database. */
const schemaLock = 1_937_138_531;

/**
 * An index of a large table takes longer than the role's statements may. A statement that waits for a table's lock holds back every other
 * session, so it gives up before the clients of a session that has the lock do.
 */
const timeouts = `SELECT set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true),
  set_config('lock_timeout', '10s', true)`;

/** Name of a table that exists while a restore fills the schema. */
export const restoringTable = "svc_restoring";

/** True if a restore into the schema is in progress or was interrupted, so that the schema is incomplete. */
export async function schemaIsBeingRestored(config: PostgresConfig): Promise<boolean> {
  const client = await connectToSchema(config);
  try {
    const { rows } = await client.query(`SELECT to_regclass('${restoringTable}') AS name`);
    return rows[0].name !== null;
  } finally {
    await client.end();
  }
}

/** Opens a dedicated connection for changing the schema. */
export async function openPostgresSchema(config: PostgresConfig): Promise<SchemaSession> {
  const client = await connectToSchema(config);

  async function revisions(): Promise<string[]> {
    const { rows: found } = await client.query("SELECT to_regclass('schema_revisions') AS name");
    if (found[0].name === null) return [];
    const { rows } = await client.query<{ revision: string }>(
      "SELECT revision FROM schema_revisions ORDER BY revision",
    );
    return rows.map(({ revision }) => revision);
  }

  return {
    revisions,
    async change(choose) {
      await client.query("BEGIN ISOLATION LEVEL READ COMMITTED");
      try {
        await client.query(`SELECT pg_advisory_xact_lock(${schemaLock})`);
        await client.query(timeouts);
        if ((await revisions()).length === 0) await client.query(revisionsTable);
        const changes = choose(await revisions());
        for (const { revision, name, direction, steps } of changes) {
          try {
            for (const statement of statementsOf(steps, "postgres")) await client.query(statement);
          } catch (error) {
            throw inRevision(revision, error);
          }
          if (direction === "up")
            await client.query(
              "INSERT INTO schema_revisions VALUES ($1, $2, CAST(extract(epoch FROM now()) * 1000 AS BIGINT))",
              [revision, name],
            );
          else await client.query("DELETE FROM schema_revisions WHERE revision = $1", [revision]);
        }
        await client.query("COMMIT");
        return changes.length > 0;
      } catch (error) {
        await client.query("ROLLBACK").catch(() => {});
        throw error;
      }
    },
    close: () => client.end(),
  };
}
