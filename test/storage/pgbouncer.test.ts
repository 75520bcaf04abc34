// The store and a server behind PgBouncer in transaction mode.
import assert from "node:assert/strict";
import { test } from "node:test";
import { systemEnv } from "../../bus/env.ts";
import { transactionSettings } from "../../storage/postgres/connection.ts";
import { openPool } from "../../storage/postgres/pool.ts";
import { has as needs } from "../support/needs.ts";
import { hasPgBouncer, startPgBouncer } from "../support/pgbouncer.ts";
import { hasPostgresServer, migratedDatabase, needsServer } from "../support/postgres.ts";
import { testPool } from "../support/postgres-server.ts";
import { create, database, has, openWriter, set } from "../support/postgres-writer.ts";
import { type Env, startServerProcess } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const isMissing = (await hasPostgresServer()) ? false : needsServer;

test("LIM-008 batches and guards work through PgBouncer without prepared statements", {
  skip: isMissing,
}, async (t) => {
  if (!needs(t, hasPgBouncer, "needs pgbouncer")) return;
  const atEnd = cleanup(t);
  const pooled = await startPgBouncer(await database(atEnd), 3, atEnd);
  const { store } = await openWriter(testPool(pooled, { poolSize: 8, preparedStatements: false }), atEnd);

  await Promise.all(Array.from({ length: 100 }, (_, i) => set(store, `k${i}`)));
  const claims = await Promise.allSettled(Array.from({ length: 20 }, () => create(store, "claim")));

  assert.equal(await has(store, "k99"), true);
  assert.equal(claims.filter(({ status }) => status === "fulfilled").length, 1);
});

test("LIM-008 statements and their waits for locks are limited on the server", { skip: isMissing }, async (t) => {
  const atEnd = cleanup(t);
  const url = await database(atEnd);
  const text = "SELECT current_setting('statement_timeout') AS statement, current_setting('lock_timeout') AS lock";
  const shown = { key: "shown", text, params: [] };
  const preamble = transactionSettings.map((each, i) => ({ key: `setting_${i}`, text: each, params: [] }));
  const role = new URL(url);
  role.searchParams.set("options", "-c statement_timeout=5s");
  const limits = async (to: string, preparedStatements: boolean) => {
    const pool = openPool(testPool(to, { preparedStatements }), systemEnv());
    atEnd.after(() => pool.close());
    return (await pool.run(preparedStatements ? [shown] : [...preamble, shown])).at(-1)?.[0];
  };

  for (const isPrepared of [true, false]) {
    assert.deepEqual(await limits(url, isPrepared), { statement: "1min", lock: "30s" });
    assert.deepEqual(await limits(role.href, isPrepared), { statement: "5s", lock: "30s" });
  }
});

test("LIM-008 a server takes turns and restarts behind PgBouncer", { skip: isMissing }, async (t) => {
  if (!needs(t, hasPgBouncer, "needs pgbouncer")) return;
  const atEnd = cleanup(t);
  const { url } = await migratedDatabase(atEnd);
  const pooled = await startPgBouncer(url, 4, atEnd);
  const env: Env = { SVC_DATABASE_URL: pooled, SVC_DB_PREPARED_STATEMENTS: "false", SVC_DB_POOL_SIZE: "4" };
  const server = await startServerProcess({ atEnd, env });
  const turn = (thread_id: string) =>
    server.post("/chat", { manifest: "quick", thread_id, messages: [{ role: "user", content: "6 * 7?" }] });

  const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => turn(`t${i % 6}-${i}`)));
  await server.restart();
  const again = await turn("t0-0");
  const history = await server.get("/chat/history/t0-0");

  for (const { status, text } of [...answers, again]) assert.equal(status, 200, text);
  assert.equal(history.json.messages.filter(({ role }: { role: string }) => role === "user").length, 2);
  assert.equal((await server.get("/ready")).status, 200);
});
