import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import SqliteDatabase from "better-sqlite3";
import type { Dialect } from "../../storage/store/dialect.ts";
import { calls, never, says } from "./chat.ts";
import type { Behaviour } from "./mock-model/behaviours.ts";
import type { MockModel } from "./mock-model.ts";
import { onServer } from "./postgres-server.ts";
import { type Env, manifestEnv, modelEnv } from "./server.ts";
import type { Cleanup } from "./temp.ts";

// The fixtures of releases: for each version a SQLite file and a Postgres dump that its server left behind, with suspended runs.
// test/fixtures/releases/record.ts records them.

const folder = fileURLToPath(new URL("../fixtures/releases/", import.meta.url));

/** The names of a fixture's files. */
export const releaseFiles = { sqlite: "svc.db.gz", postgres: "postgres.sql.gz", runs: "runs.json" } as const;

/** What the clients of the recorded server know. */
export interface RecordedRuns {
  /** When the server stopped, in epoch milliseconds. */
  readonly stopped_at: number;
  /** The pending approvals of a turn on thread `sums` and of a durable run on thread `gated`. */
  readonly approvals: readonly string[];
  /** The tokens of two durable runs: the one that waits, and one on thread `working` whose model call was interrupted. */
  readonly tokens: readonly string[];
}

/** The versions with fixtures. */
export function recordedReleases(): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
}

/** The path of a fixture's file. */
export function releasePath(version: string, file: string): string {
  return join(folder, version, file);
}

/** Settings of the recorded server and of its successors. */
export function releaseEnv(mock: Pick<MockModel, "url">, atEnd: Cleanup): Env {
  const gated = { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"], ttl_seconds: 3_600 }] };
  return {
    ...modelEnv(mock, ["plain"]),
    ...manifestEnv(atEnd, { gated, lasting: { ...gated, execution: { mode: "durable" } } }),
  };
}

/** The model of the recorded server: it calls a tool for `sum`, and never ends its answer to `work`. */
export const recordedModel = (({ body }) => {
  const messages = body.messages as readonly { role: string; content: string }[];
  const asked = messages.findLast(({ role }) => role === "user")?.content;
  if (messages.at(-1)?.role === "tool") return says("Done.");
  if (asked === "sum") return calls(["calculator", { expression: "6*7" }]);
  return asked === "work" ? says("Begun", never) : says("Hello.");
}) satisfies Behaviour;

/** Times are moved by name: those by which rows expire, are retried or are deleted. */
const isTime = /(?:_at|^ts|^deadline)$/;
/** Smaller numbers in these columns are no times. */
const firstTime = 1_000_000_000_000;

/** Writes the SQLite file of a release into a data directory, as if its server had stopped just now. Returns what its clients know. */
export function restoreSqlite(version: string, dataDir: string): RecordedRuns {
  const path = join(dataDir, "svc.db");
  writeFileSync(path, gunzipSync(readFileSync(releasePath(version, releaseFiles.sqlite))));
  const { runs, movedMs } = runsOf(version, "sqlite");
  const db = new SqliteDatabase(path);
  try {
    const columns = db
      .prepare<[], Column>(
        `SELECT m.name AS "table", c.name AS "column" FROM sqlite_master m, pragma_table_info(m.name) c
          WHERE m.type = 'table' AND m.sql LIKE 'CREATE TABLE %'`,
      )
      .all();
    for (const statement of moves(columns, movedMs)) db.exec(statement);
  } finally {
    db.close();
  }
  return runs;
}

/** Fills an empty Postgres database from the dump of a release, as `restoreSqlite` does. */
export async function restorePostgres(version: string, url: string): Promise<RecordedRuns> {
  const dump = gunzipSync(readFileSync(releasePath(version, releaseFiles.postgres))).toString("utf8");
  const { runs, movedMs } = runsOf(version, "postgres");
  await onServer(url, (client) => client.query(dump));
  await onServer(url, async (client) => {
    const { rows } = await client.query<Column>(
      `SELECT table_name AS "table", column_name AS "column" FROM information_schema.columns
        WHERE table_schema = 'public' AND data_type = 'bigint'`,
    );
    for (const statement of moves(rows, movedMs)) await client.query(statement);
  });
  return runs;
}

function runsOf(version: string, dialect: Dialect): { runs: RecordedRuns; movedMs: number } {
  const recorded = JSON.parse(readFileSync(releasePath(version, releaseFiles.runs), "utf8"));
  const runs = recorded[dialect] as RecordedRuns;
  return { runs, movedMs: Date.now() - runs.stopped_at };
}

interface Column {
  readonly table: string;
  readonly column: string;
}

function moves(columns: readonly Column[], ms: number): string[] {
  return columns
    .filter(({ column }) => isTime.test(column))
    .map(({ table, column }) => `UPDATE ${table} SET ${column} = ${column} + ${ms} WHERE ${column} > ${firstTime}`);
}
