import { createReadStream } from "node:fs";
import { join } from "node:path";
import type { Client } from "pg";
import { type Contents, NoBackup, type SavedTable } from "../backup/contents.ts";
import type { RestoreTarget } from "../backup/database.ts";
import type { PostgresConfig } from "../store/config.ts";
import { countOpenStatement, markStatement, restoredMark } from "../store/restored-mark.ts";
import { connectToSchema } from "./connection.ts";
import { restoringTable } from "./schema.ts";
import { patience, quoted, tablesOf } from "./snapshot.ts";

/** Max rows of one insert. */
const rowsAtOnce = 500;
/** Characters after which an insert is sent. */
const charactersAtOnce = 4 * 1024 * 1024;

/** Opens a Postgres schema as the target of a restore. `migrateTo` applies exactly the given revisions. */
export async function openPostgresTarget(
  config: PostgresConfig,
  migrateTo: (revisions: readonly string[]) => Promise<unknown>,
): Promise<RestoreTarget> {
  const client = await connectToSchema(config);
  return {
    async state(id) {
      const tables = await tablesOf(client);
      if (tables.length === 0) return "empty";
      if (!tables.includes(restoringTable))
        return { reason: `the schema has tables already (${tables.slice(0, 3).join(", ")}, …)` };
      const { rows } = await client.query<{ id: string }>(`SELECT id FROM ${restoringTable}`);
      return rows[0]?.id === id ? "ours" : { reason: "another restore into the schema was interrupted" };
    },
    async begin(id) {
      await client.query(`CREATE TABLE IF NOT EXISTS ${restoringTable} (id TEXT PRIMARY KEY)`);
      await client.query(`INSERT INTO ${restoringTable} VALUES ($1) ON CONFLICT DO NOTHING`, [id]);
    },
    async restore(directory, contents) {
      await migrateTo(contents.revisions);
      await client.query("BEGIN ISOLATION LEVEL READ COMMITTED");
      try {
        await client.query(patience);
        const leftOut = await fill(client, directory, contents);
        await client.query("COMMIT");
        return leftOut;
      } catch (error) {
        await client.query("ROLLBACK").catch(() => {});
        throw error;
      }
    },
    async mark({ tables }, isResumed) {
      const { name, held, resumed } = restoredMark;
      await client.query(markStatement, [name, isResumed ? resumed : held]);
      if (!tables.some((table) => table.name === "fibers")) return 0;
      const { rows } = await client.query<{ open: number }>(countOpenStatement);
      return Number(rows[0]?.open ?? 0);
    },
    async finish() {
      await client.query(`DROP TABLE ${restoringTable}`);
    },
    close: () => client.end(),
  };
}

/** Fills the tables. Returns those that no migration of the backup creates: other applications may share the schema. */
async function fill(client: Client, directory: string, { tables, sequences = {} }: Contents): Promise<string[]> {
  const there = await tablesOf(client);
  for (const table of tables.filter(({ name }) => there.includes(name))) {
    const name = quoted(table.name);
    // The saved rows include what triggers add up, and the revisions that the migrations have just written.
    await client.query(`ALTER TABLE ${name} DISABLE TRIGGER USER`);
    await client.query(`DELETE FROM ${name}`);
    await fillTable(client, directory, table);
    await client.query(`ALTER TABLE ${name} ENABLE TRIGGER USER`);
    const { rows } = await client.query<{ rows: number }>(
      `SELECT CAST(COUNT(*) AS DOUBLE PRECISION) AS rows FROM ${name}`,
    );
    const found = rows[0]?.rows ?? 0;
    if (found !== table.rows) throw new NoBackup(`${table.name} has ${found} rows instead of ${table.rows}.`);
  }
  for (const [name, last] of Object.entries(sequences))
    await client.query("SELECT setval(to_regclass(quote_ident($1)), $2::bigint)", [name, last]);
  return tables.map(({ name }) => name).filter((name) => !there.includes(name));
}

async function fillTable(client: Client, directory: string, { name, file }: SavedTable): Promise<void> {
  if (file === undefined) throw new NoBackup(`the backup has no file for the table ${name}.`);
  const text = `INSERT INTO ${quoted(name)} SELECT * FROM json_populate_recordset(NULL::${quoted(name)}, $1::json)`;
  let lines: string[] = [];
  let characters = 0;
  const send = async (): Promise<void> => {
    if (lines.length > 0) await client.query(text, [`[${lines.join(",")}]`]);
    lines = [];
    characters = 0;
  };
  // Not with readline, which also splits at U+2028 and U+2029 inside JSON texts.
  const decoder = new TextDecoder();
  let rest = "";
  for await (const piece of createReadStream(join(directory, file.path))) {
    const found = (rest + decoder.decode(piece as Buffer, { stream: true })).split("\n");
    rest = found.pop() ?? "";
    for (const line of found) {
      lines.push(line);
      characters += line.length;
      if (lines.length === rowsAtOnce || characters >= charactersAtOnce) await send();
    }
  }
  await send();
}
