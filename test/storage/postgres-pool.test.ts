import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { systemEnv } from "../../bus/env.ts";
import { openPool } from "../../storage/postgres/pool.ts";
import { openPostgresWriter } from "../../storage/postgres/writer.ts";
import { hasPostgresServer, needsServer } from "../support/postgres.ts";
import { onServer, testPool } from "../support/postgres-server.ts";
import { create, database, has, openWriter, set, waitFor } from "../support/postgres-writer.ts";
import { cleanup } from "../support/temp.ts";
import { transactionPooler } from "../support/transaction-pooler.ts";

const skip = (await hasPostgresServer()) ? false : needsServer;

function connections(url: string): Promise<number> {
  return onServer(url, async (client) => {
    const { rows } = await client.query(
      "SELECT count(*)::int AS count FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'svc'",
    );
    return rows[0].count;
  });
}

describe("the pool", { skip }, () => {
  test("LIM-007 LIM-009 the pool stays within size plus overflow and refuses writes that wait too long", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    const config = testPool(url, { poolSize: 2, maxOverflow: 3, poolTimeoutSeconds: 5 });
    const { store } = await openWriter(config, atEnd);

    const { counted, outcomes } = await onServer(url, async (client) => {
      await client.query("BEGIN; LOCK TABLE kv IN ACCESS EXCLUSIVE MODE");
      const first = Array.from({ length: 4 }, (_, i) => set(store, `k${i}`));
      // The first writes own all connections now, however long connecting takes.
      await waitFor(async () => (await connections(url)) === 5);
      const writes = [...first, ...Array.from({ length: 36 }, (_, i) => set(store, `k${4 + i}`))];
      const settled = Promise.allSettled(writes);
      // When the first waiting write is refused, every possible connection is open.
      await assert.rejects(Promise.race(writes.slice(4)), { code: "storage_unavailable" });
      const counted = await connections(url);
      await client.query("COMMIT");
      return { counted, outcomes: await settled };
    });

    const served = outcomes.filter(({ status }) => status === "fulfilled").length;
    assert.equal(counted, 5);
    // One connection holds the process lock.
    assert.equal(served, 4);
    await set(store, "later");
  });

  test("LIM-007 with a pool of one, every batch of a load is served, one after the other", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    const { store } = await openWriter(testPool(url, { poolSize: 1, maxOverflow: 0 }), atEnd);

    await Promise.all(Array.from({ length: 100 }, (_, i) => set(store, `k${i}`)));

    // One connection for statements and one for the lock.
    assert.equal(await connections(url), 2);
    assert.equal(await has(store, "k99"), true);
  });

  test("LIM-009 connections beyond the pool's size close when they are idle", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    const pool = openPool(testPool(url, { poolSize: 2, maxOverflow: 6 }), systemEnv(), 20);
    atEnd.after(() => pool.close());

    await onServer(url, async (client) => {
      await client.query("BEGIN; SELECT pg_advisory_xact_lock(7)");
      const wait = { key: "wait", text: "SELECT pg_advisory_xact_lock(7)", params: [] };
      const busy = Promise.all(Array.from({ length: 7 }, () => pool.run([wait])));
      await waitFor(async () => (await connections(url)) === 7);
      await client.query("COMMIT");
      await busy;
    });

    await waitFor(async () => (await connections(url)) === 2);
  });

  test("a server without free connections makes batches wait for one of ours", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    const role = `svc_few_${process.pid}`;
    await onServer(url, async (client) => {
      await client.query(`CREATE ROLE ${role} LOGIN CONNECTION LIMIT 3`);
      await client.query(`GRANT ALL ON ALL TABLES IN SCHEMA public TO ${role}`);
    });
    atEnd.after(() =>
      onServer(url, async (client) => {
        await client.query(`DROP OWNED BY ${role}`);
        await client.query(`DROP ROLE ${role}`);
      }),
    );
    const limited = new URL(url);
    limited.username = role;
    const { store } = await openWriter(testPool(limited.href, { poolSize: 8, maxOverflow: 0 }), atEnd);

    await Promise.all(Array.from({ length: 30 }, (_, i) => set(store, `k${i}`)));

    assert.equal(await has(store, "k29"), true);
  });

  test("a server without free connections for the whole timeout refuses the batch", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    const role = `svc_none_${process.pid}`;
    await onServer(url, (client) => client.query(`CREATE ROLE ${role} LOGIN CONNECTION LIMIT 0`));
    atEnd.after(() =>
      onServer(url, async (client) => {
        await client.query(`DROP ROLE ${role}`);
      }),
    );
    const limited = new URL(url);
    limited.username = role;
    const pool = openPool(testPool(limited.href, { poolTimeoutSeconds: 0.2 }), systemEnv());
    atEnd.after(() => pool.close());

    const one = { key: "one", text: "SELECT 1 AS one", params: [] };
    // A separate connection keeps the process alive; the pause does not.
    await onServer(url, () => assert.rejects(pool.run([one]), { code: "53300" }));
  });

  test("a renewed pool runs nothing on old connections, and closes busy ones afterwards", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    const pool = openPool(testPool(url, { poolSize: 3, maxOverflow: 0 }), systemEnv());
    atEnd.after(() => pool.close());
    const own = { key: "own", text: "SELECT pg_backend_pid() AS pid", params: [] };
    const wait = { key: "wait", text: "SELECT pg_advisory_xact_lock(7)", params: [] };
    const pidOf = async (work: ReturnType<typeof pool.run>) => Number((await work).at(-1)?.[0]?.pid);

    const { busy, idle, next } = await onServer(url, async (client) => {
      await client.query("BEGIN; SELECT pg_advisory_xact_lock(7)");
      const held = pidOf(pool.run([wait, own]));
      const before = await pidOf(pool.run([own]));
      await waitFor(async () => (await connections(url)) === 2);
      pool.renew();
      const after = await pidOf(pool.run([own]));
      await client.query("COMMIT");
      return { busy: await held, idle: before, next: after };
    });

    assert.equal(new Set([busy, idle, next]).size, 3);
    await waitFor(async () => (await connections(url)) === 1);
    assert.equal(await pidOf(pool.run([own])), next);
  });

  test("LIM-008 unprepared statements work through a transaction pooler", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    const pooled = await transactionPooler(url, 3, atEnd);
    const { store } = await openWriter(testPool(pooled, { poolSize: 5, preparedStatements: false }), atEnd);

    await Promise.all(Array.from({ length: 50 }, (_, i) => set(store, `k${i}`)));
    const claims = await Promise.allSettled(Array.from({ length: 20 }, () => create(store, "claim")));

    assert.equal(await has(store, "k49"), true);
    assert.equal(claims.filter(({ status }) => status === "fulfilled").length, 1);
  });

  test("LIM-008 prepared statements fail through the pooler of these tests", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    const pooled = await transactionPooler(url, 1, atEnd);
    const { store } = await openWriter(testPool(pooled, { poolSize: 5 }), atEnd);

    const outcomes = await Promise.allSettled(Array.from({ length: 10 }, (_, i) => set(store, `k${i}`)));

    assert.ok(outcomes.some(({ status }) => status === "rejected"));
  });

  test("LIM-008 behind such a pooler a second process is refused too", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    const pooled = await transactionPooler(url, 4, atEnd);
    const config = testPool(pooled, { preparedStatements: false });
    const { store } = await openWriter(config, atEnd);

    await assert.rejects(
      openPostgresWriter(config, systemEnv(), () => {}),
      { name: "DatabaseInUse" },
    );
    await assert.rejects(
      openPostgresWriter(testPool(url), systemEnv(), () => {}),
      { name: "DatabaseInUse" },
    );

    await set(store, "a");
  });
});
