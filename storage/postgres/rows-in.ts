import type { Client } from "pg";
import { type LastKey, type MoveTarget, RowSum } from "../move/parts.ts";
import type { PostgresConfig } from "../store/config.ts";
import { connectToSchema } from "./connection.ts";
import { restoringTable } from "./schema.ts";
import { patience, quoted, tablesOf } from "./snapshot.ts";

/** Rows of one page of the digest. */
const rowsAtOnce = 500;
/** Table with the progress of a move. */
const progressTable = "svc_moving";
/** Tables of the schema that are no data of the source. */
const ownTables = ["schema_revisions", restoringTable, progressTable];

/** Opens a schema as the target of a move. */
export async function openRowsIn(config: PostgresConfig): Promise<MoveTarget> {
  const client = await connectToSchema(config);
  const inTransaction = async <T>(work: () => Promise<T>): Promise<T> => {
    await client.query("BEGIN ISOLATION LEVEL READ COMMITTED");
    try {
      await client.query(patience);
      const result = await work();
      await client.query("COMMIT");
      return result;
    } catch (error) {
      await client.query("ROLLBACK").catch(() => {});
      throw error;
    }
  };
  const keepProgress = async (table: string, last: LastKey): Promise<void> => {
    await client.query(
      `INSERT INTO ${progressTable} VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET last = excluded.last`,
      [table, keyText(last)],
    );
  };
  return {
    state: (id) => stateOf(client, id),
    async begin(id, tables) {
      const there = (await tablesOf(client)).filter((name) => tables.includes(name) && !ownTables.includes(name));
      await inTransaction(async () => {
        await client.query(`CREATE TABLE ${restoringTable} (id TEXT PRIMARY KEY)`);
        await client.query(`CREATE TABLE ${progressTable} (name TEXT PRIMARY KEY, last TEXT NOT NULL)`);
        await client.query(`INSERT INTO ${restoringTable} VALUES ($1)`, [id]);
        for (const name of there) await client.query(`DELETE FROM ${quoted(name)}`);
      });
    },
    async tables() {
      const { rows } = await client.query<{ name: string; columns: string[] }>(
        `SELECT table_name AS name, array_agg(column_name::text ORDER BY ordinal_position) AS columns
         FROM information_schema.columns WHERE table_schema = current_schema() GROUP BY table_name`,
      );
      return new Map(rows.filter(({ name }) => !ownTables.includes(name)).map(({ name, columns }) => [name, columns]));
    },
    async progress(table) {
      const { rows } = await client.query<{ last: string }>(`SELECT last FROM ${progressTable} WHERE name = $1`, [
        table,
      ]);
      return rows[0] === undefined ? null : readKey(rows[0].last);
    },
    insert: ({ name, columns }, rows, last) =>
      inTransaction(async () => {
        const table = quoted(name);
        const list = columns.map(quoted).join(", ");
        // The rows include what triggers add up.
        await client.query(`ALTER TABLE ${table} DISABLE TRIGGER USER`);
        await client.query(
          `INSERT INTO ${table} (${list}) SELECT ${list} FROM json_populate_recordset(NULL::${table}, $1::json)`,
          [JSON.stringify(rows.map((row) => Object.fromEntries(columns.map((column, i) => [column, jsonOf(row[i])]))))],
        );
        await client.query(`ALTER TABLE ${table} ENABLE TRIGGER USER`);
        await keepProgress(name, last);
      }),
    keepProgress,
    digest: ({ name, columns }) =>
      inTransaction(async () => {
        const sum = new RowSum();
        await client.query(
          `DECLARE moved NO SCROLL CURSOR FOR SELECT ${columns.map(quoted).join(", ")} FROM ${quoted(name)}`,
        );
        for (;;) {
          const { rows } = await client.query<(string | number | null)[]>({
            text: `FETCH ${rowsAtOnce} FROM moved`,
            rowMode: "array",
          });
          for (const row of rows) sum.add(row);
          if (rows.length < rowsAtOnce) break;
        }
        return sum.total;
      }),
    finish: (wordsOf) =>
      inTransaction(async () => {
        await client.query("UPDATE threads SET indexed_seq = 0");
        await client.query("DELETE FROM hosts");
        await client.query(
          "SELECT setval('threadless_runs', GREATEST(1, (SELECT COALESCE(-MIN(run_key), 0) FROM runs)))",
        );
        if ((await tablesOf(client)).includes("document_search")) await indexDocuments(client, wordsOf);
        await client.query(`DROP TABLE ${restoringTable}`);
        await client.query(`DROP TABLE ${progressTable}`);
      }),
    close: () => client.end(),
  };
}

/** Fills the full-text index over the chunks of documents. */
async function indexDocuments(client: Client, wordsOf: (tenantId: string, text: string) => string): Promise<void> {
  await client.query("DELETE FROM document_search");
  for (let after = "-1"; ; ) {
    const { rows } = await client.query<{ tenant_id: string; chunk_key: string; content: string }>(
      "SELECT tenant_id, chunk_key, content FROM document_chunks WHERE chunk_key > $1 ORDER BY chunk_key LIMIT $2",
      [after, rowsAtOnce],
    );
    const words = rows.map(({ tenant_id, content }) => wordsOf(tenant_id, content));
    await client.query(
      `INSERT INTO document_search (tenant_id, chunk_key, document)
       SELECT tenant_id, chunk_key, to_tsvector('svc_words', words)
       FROM unnest($1::text[], $2::bigint[], $3::text[]) AS found (tenant_id, chunk_key, words)`,
      [rows.map(({ tenant_id }) => tenant_id), rows.map(({ chunk_key }) => chunk_key), words],
    );
    const last = rows.at(-1);
    if (last === undefined || rows.length < rowsAtOnce) return;
    after = last.chunk_key;
  }
}

async function stateOf(client: Client, id: string): Promise<"empty" | "ours" | { readonly reason: string }> {
  const tables = await tablesOf(client);
  if (tables.length === 0) return "empty";
  if (tables.includes(restoringTable)) {
    const { rows } = await client.query<{ id: string }>(`SELECT id FROM ${restoringTable}`);
    return rows[0]?.id === id ? "ours" : { reason: "another move or restore into the schema was interrupted" };
  }
  if (!tables.includes("schema_revisions")) return { reason: "the schema has tables of another application" };
  const { rows: owned } = await client.query<{ name: string }>(
    "SELECT table_name AS name FROM information_schema.columns WHERE table_schema = current_schema() AND column_name = 'tenant_id'",
  );
  for (const { name } of owned) {
    const { rows } = await client.query(`SELECT 1 FROM ${quoted(name)} WHERE tenant_id <> '' LIMIT 1`);
    if (rows.length > 0) return { reason: `the target has data of tenants already, in the table ${name}` };
  }
  const { rows: hosts } = await client.query(
    "SELECT 1 FROM hosts WHERE expires_at > CAST(extract(epoch FROM now()) * 1000 AS BIGINT) LIMIT 1",
  );
  return hosts.length > 0 ? { reason: "a server uses the target" } : "empty";
}

function jsonOf(value: unknown): unknown {
  if (Buffer.isBuffer(value)) throw new Error("a row has bytes, which no table of svc has");
  return typeof value === "bigint" ? String(value) : value;
}

/** Integers keep their type: SQLite compares a text with an integer as different. */
function keyText(key: LastKey): string {
  return JSON.stringify(key.map((part) => (typeof part === "bigint" ? { n: String(part) } : part)));
}

function readKey(text: string): LastKey {
  const parts = JSON.parse(text) as (string | number | { n: string })[];
  return parts.map((part) => (typeof part === "object" ? BigInt(part.n) : part));
}
