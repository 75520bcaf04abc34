import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { type Env, systemEnv } from "../../bus/env.ts";
import { statementNamed } from "../../storage/store/statements.ts";
import { kvGet, kvSetOp } from "../../storage/tables/kv.ts";
import { hasPostgresServer, needsServer } from "../support/postgres.ts";
import { onServer, testPool } from "../support/postgres-server.ts";
import { create, database, has, type Opened, openWriter, set, waitFor } from "../support/postgres-writer.ts";
import { tcpProxy } from "../support/tcp-proxy.ts";
import { cleanup } from "../support/temp.ts";
import { transactionPooler } from "../support/transaction-pooler.ts";

const skip = (await hasPostgresServer()) ? false : needsServer;

/** Makes the server raise an error when a row of `kv` with this key is written, up to `times` times. */
function raiseOn(url: string, key: string, state: string, times = 1_000_000): Promise<void> {
  return onServer(url, async (client) => {
    await client.query("CREATE SEQUENCE IF NOT EXISTS attempts");
    await client.query(`CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF NEW.key = '${key}' AND nextval('attempts') <= ${times} THEN
          RAISE EXCEPTION 'made by a test' USING ERRCODE = '${state}';
        END IF;
        RETURN NEW;
      END $$`);
    await client.query("DROP TRIGGER IF EXISTS refuse ON kv");
    await client.query("CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON kv FOR EACH ROW EXECUTE FUNCTION refuse()");
  });
}

describe("Postgres that fails", { skip }, () => {
  test("a batch is one request and one answer on the wire, whatever its size", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    const proxy = await tcpProxy(url, atEnd);
    const { store } = await openWriter(
      testPool(proxy.url(url), { poolSize: 1, maxOverflow: 0, prePing: false }),
      atEnd,
    );
    const tenant = store.tenant("acme");
    const ops = ["a", "b", "c", "d"].map((key) => kvSetOp(tenant, { key, value: "1", expires_at: null }, 1));
    await tenant.write(ops);
    proxy.turns();

    await tenant.write(ops);

    assert.equal(proxy.turns(), 2);
  });

  test("a server that is down is storage_unavailable, and the store recovers by itself", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    const proxy = await tcpProxy(url, atEnd);
    const { store, writer, fatal } = await openWriter(testPool(proxy.url(url)), atEnd);
    await set(store, "before");

    proxy.cut();
    await assert.rejects(kvGet(store.tenant("acme"), "before", 0), { code: "storage_unavailable" });
    await assert.rejects(store.check(), { code: "storage_unavailable" });
    const failure = writer.failure();
    // Writes wait for the process lock that was lost with its connection.
    const waiting = set(store, "after");
    proxy.restore();
    await waiting;

    assert.equal(await has(store, "before"), true);
    assert.equal(await has(store, "after"), true);
    await store.check();
    assert.equal(writer.failure(), null);
    assert.notEqual(failure, null);
    assert.deepEqual(fatal, []);
  });

  test("a write that waits for a server past the pool's timeout is refused", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    const proxy = await tcpProxy(url, atEnd);
    const { store } = await openWriter(testPool(proxy.url(url), { poolTimeoutSeconds: 0.2 }), atEnd);

    proxy.cut();

    await assert.rejects(set(store, "a"), { code: "storage_unavailable" });
  });

  test("a batch whose answer is lost is refused; resent with its key it is a conflict", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    const proxy = await tcpProxy(url, atEnd);
    const { store } = await openWriter(testPool(proxy.url(url), { prePing: false }), atEnd);
    await set(store, "warm");

    proxy.loseNextAnswer();
    await assert.rejects(create(store, "claimed"), { code: "storage_unavailable" });

    await assert.rejects(create(store, "claimed"), { code: "conflict" });
    assert.equal(await has(store, "claimed"), true);
  });

  test("a batch whose connection the server ends before the commit runs again on another", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    const { store, fatal } = await openWriter(testPool(url), atEnd);
    await Promise.all(["a", "b", "c"].map((key) => set(store, key)));
    await onServer(url, async (client) => {
      await client.query("BEGIN; LOCK TABLE kv IN ACCESS EXCLUSIVE MODE");
      const busy = set(store, "busy");
      await waitFor(async () => {
        const { rows } = await client.query(
          "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        );
        return rows.length > 0;
      });
      // Wait for the end of the connections: with the lock free, the batch could reach its commit first.
      await client.query(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'svc'",
      );
      await client.query("COMMIT");
      await busy;
    });

    await Promise.all(["d", "e", "f"].map((key) => set(store, key)));

    assert.equal(await has(store, "f"), true);
    assert.equal(await has(store, "busy"), true);
    assert.deepEqual(fatal, []);
  });

  test("an idle connection that died silently is detected before it is used", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    const proxy = await tcpProxy(url, atEnd);
    const real = systemEnv();
    let later = 0;
    const env: Env = { ...real, monotonic: () => real.monotonic() + later };
    const { store } = await openWriter(
      testPool(proxy.url(url), { poolSize: 2, maxOverflow: 1, connectTimeoutSeconds: 0.3 }),
      atEnd,
      env,
    );
    await Promise.all([set(store, "a"), set(store, "b")]);

    proxy.swallow();
    later = 60_000;
    await set(store, "c");

    assert.equal(await has(store, "c"), true);
  });

  test("a server that accepts a batch and never answers is dropped after a while", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    const proxy = await tcpProxy(url, atEnd);
    const real = systemEnv();
    const deadlines: (() => void)[] = [];
    const env: Env = {
      ...real,
      timer(delayMs, work) {
        if (delayMs < 60_000) return real.timer(delayMs, work);
        deadlines.push(work);
        return { cancel: () => void deadlines.splice(deadlines.indexOf(work), 1) };
      },
    };
    const { store } = await openWriter(testPool(proxy.url(url), { prePing: false }), atEnd, env);
    await set(store, "a");

    proxy.swallow();
    const lost = assert.rejects(set(store, "b"), { code: "storage_unavailable" });
    await waitFor(async () => deadlines.length > 0);
    for (const strike of [...deadlines]) strike();

    await lost;
    assert.deepEqual(deadlines, []);
  });

  test("a connected but silent server is dropped by checks and reads before batches", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    const proxy = await tcpProxy(url, atEnd);
    const real = systemEnv();
    const strikes: [number, () => void][] = [];
    const env: Env = {
      ...real,
      timer(delayMs, work) {
        if (![2_000, 8_000, 60_000].includes(delayMs)) return real.timer(delayMs, work);
        const strike: [number, () => void] = [delayMs, work];
        strikes.push(strike);
        return { cancel: () => void strikes.splice(strikes.indexOf(strike), 1) };
      },
    };
    const { store, writer } = await openWriter(testPool(proxy.url(url), { prePing: false }), atEnd, env);
    await Promise.all([set(store, "a"), set(store, "b"), set(store, "c")]);

    proxy.hush();
    const checks = [store.check(), store.check()].map((check) =>
      assert.rejects(check, { code: "storage_unavailable" }),
    );
    const read = assert.rejects(writer.read(statementNamed("kv_get"), ["acme", "a", 0], 8_000), {
      code: "storage_unavailable",
    });
    await waitFor(async () => strikes.length >= 2);
    const asked = strikes.map(([delayMs]) => delayMs).sort((left, right) => left - right);
    for (const [, strike] of [...strikes]) strike();
    await Promise.all([...checks, read]);
    // The third connection is cut as well, and the store has not noticed yet.
    proxy.cut();
    proxy.restore();

    assert.deepEqual(asked, [2_000, 8_000]);
    await waitFor(() =>
      store.check().then(
        () => true,
        () => false,
      ),
    );
    assert.equal(await has(store, "a"), true);
  });

  test("a connection that died silently is detected in 2 s, however slow connecting is", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    const proxy = await tcpProxy(url, atEnd);
    const real = systemEnv();
    const delays: number[] = [];
    let later = 0;
    const env: Env = {
      ...real,
      monotonic: () => real.monotonic() + later,
      timer(delayMs, work) {
        delays.push(delayMs);
        return real.timer(delayMs === 2_000 ? 1 : delayMs, work);
      },
    };
    const { store } = await openWriter(
      testPool(proxy.url(url), { poolSize: 1, maxOverflow: 1, connectTimeoutSeconds: 600 }),
      atEnd,
      env,
    );
    await set(store, "a");

    proxy.swallow();
    later = 60_000;
    await set(store, "b");

    assert.ok(delays.includes(2_000));
    assert.equal(await has(store, "b"), true);
  });

  test("a connection that is silent from the start is dropped, and its place is free", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    const proxy = await tcpProxy(url, atEnd);
    const { store } = await openWriter(
      testPool(proxy.url(url), { poolSize: 2, maxOverflow: 0, connectTimeoutSeconds: 0.5 }),
      atEnd,
    );

    // The first statement on every connection of the pool.
    proxy.swallowWith("synchronous_commit");
    await assert.rejects(set(store, "a"), { code: "storage_unavailable" });
    proxy.restore();

    await set(store, "b");
    assert.deepEqual([await has(store, "a"), await has(store, "b")], [false, true]);
  });

  test("a transaction that loses to another is retried, three tries in all", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    await raiseOn(url, "poison", "40001", 2);
    const { store } = await openWriter(testPool(url), atEnd);

    await set(store, "poison");
    const attempts = await onServer(
      url,
      async (client) => (await client.query("SELECT last_value FROM attempts")).rows[0].last_value,
    );

    assert.equal(Number(attempts), 3);
    assert.equal(await has(store, "poison"), true);
  });

  for (const level of ["repeatable read", "serializable"])
    for (const through of ["a session", "a pooler"]) {
      test(`under a default of ${level} no contender is refused through ${through}`, async (t) => {
        const atEnd = cleanup(t);
        const url = await database(atEnd);
        await onServer(url, async (client) => {
          await client.query(
            `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET default_transaction_isolation = '${level}'`,
          );
        });
        const pooled = through === "a pooler";
        const config = pooled
          ? testPool(await transactionPooler(url, 8, atEnd), { preparedStatements: false })
          : testPool(url);
        const { store } = await openWriter(config, atEnd);
        const reserve = statementNamed("thread_keys_reserve");
        const value = async () =>
          ((await store.system.write([store.system.op(reserve, [0, 0])]))[0]?.[0]?.value as number) ?? 0;
        const start = await value();

        await Promise.all(Array.from({ length: 40 }, () => store.system.write([store.system.op(reserve, [1, 1])])));

        assert.equal((await value()) - start, 40);
      });
    }

  test("a plan that no longer fits the schema is prepared again", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    const { store } = await openWriter(testPool(url, { poolSize: 1, maxOverflow: 0 }), atEnd);
    await set(store, "a");
    await has(store, "a");

    await onServer(url, (client) => client.query("ALTER TABLE kv ALTER COLUMN version TYPE INTEGER"));

    await set(store, "b");
    assert.equal(await has(store, "b"), true);
  });

  test("a read-only server accepts no writes, and check says so", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    await onServer(url, async (client) => {
      await client.query(`ALTER DATABASE ${new URL(url).pathname.slice(1)} SET default_transaction_read_only = on`);
    });
    const { store } = await openWriter(testPool(url), atEnd);

    await assert.rejects(set(store, "a"), { code: "storage_unavailable" });
    await assert.rejects(store.check(), { code: "storage_unavailable" });
    assert.equal(await has(store, "a"), false);
  });

  test("connections to a formerly read-only server are replaced, and all recovers", async (t) => {
    const atEnd = cleanup(t);
    const url = await database(atEnd);
    const name = new URL(url).pathname.slice(1);
    // A session keeps its initial read-only state for ever, like a connection to a primary that has become a standby.
    const begin = (how: string) =>
      onServer(url, async (client) => {
        await client.query("SET default_transaction_read_only = off");
        await client.query(`ALTER DATABASE ${name} ${how}`);
      });
    const holder = () =>
      onServer(url, async (client) => {
        const { rows } = await client.query(
          "SELECT l.pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE l.locktype = 'advisory' AND d.datname = current_database()",
        );
        return rows[0]?.pid as number | undefined;
      });
    await begin("SET default_transaction_read_only = on");
    const { store, fatal } = await openWriter(testPool(url), atEnd);
    assert.equal(await has(store, "a"), false);
    const first = await holder();
    await begin("RESET default_transaction_read_only");

    await assert.rejects(set(store, "a"), { code: "storage_unavailable" });
    await waitFor(() =>
      store.check().then(
        () => true,
        () => false,
      ),
    );
    await set(store, "b");

    assert.deepEqual([await has(store, "a"), await has(store, "b")], [false, true]);
    assert.notEqual(await holder(), first);
    assert.deepEqual(fatal, []);
  });

  for (const preparedStatements of [true, false]) {
    for (const [setting, expected] of [
      ["off", "on"],
      ["local", "on"],
      ["remote_apply", "remote_apply"],
    ] as const) {
      test(`commits are on the disk when the server's own setting is ${setting}, ${preparedStatements ? "with" : "without"} prepared statements`, async (t) => {
        const atEnd = cleanup(t);
        const url = await database(atEnd);
        await onServer(url, async (client) => {
          await client.query(`ALTER DATABASE ${new URL(url).pathname.slice(1)} SET synchronous_commit = '${setting}'`);
          await client.query("CREATE TABLE seen (setting TEXT)");
          await client.query(`CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$`);
          await client.query("CREATE TRIGGER see BEFORE INSERT ON kv FOR EACH ROW EXECUTE FUNCTION see()");
        });
        const { store } = await openWriter(testPool(url, { preparedStatements }), atEnd);

        await set(store, "a");

        const seen = await onServer(url, (client) => client.query("SELECT setting FROM seen"));
        assert.deepEqual(seen.rows, [{ setting: expected }]);
      });
    }
  }
});

describe("errors of Postgres", { skip }, () => {
  const atEnd = cleanup();
  let url = "";
  let opened: Opened;
  before(async () => {
    url = await database(atEnd);
    opened = await openWriter(testPool(url), atEnd);
  });

  for (const [state, code] of [
    ["53100", "storage_unavailable"],
    ["53200", "storage_unavailable"],
    ["57014", "storage_unavailable"],
    ["25006", "storage_unavailable"],
    ["58030", "storage_unavailable"],
    ["XX001", "storage_unavailable"],
    ["23514", "conflict"],
    ["23505", "conflict"],
    ["SV001", "conflict"],
    ["22003", "internal_error"],
    ["42601", "internal_error"],
    ["42P01", "storage_unavailable"],
    ["40001", "conflict"],
    ["40P01", "conflict"],
  ] as const) {
    test(`SQLSTATE ${state} is ${code}, and nothing of the batch is stored`, async () => {
      const { store, writer } = opened;
      await raiseOn(url, "poison", state);
      const tenant = store.tenant("acme");
      const write = (key: string) => kvSetOp(tenant, { key, value: "1", expires_at: null }, 1);

      await assert.rejects(tenant.write([write("a"), write("poison"), write("b")]), { code });

      assert.deepEqual(await Promise.all([has(store, "a"), has(store, "b")]), [false, false]);
      assert.equal(writer.failure() !== null, code === "storage_unavailable");
      // While the server accepts no writes the process lock is taken again, which may take time.
      await waitFor(() =>
        store.check().then(
          () => true,
          () => state !== "25006",
        ),
      );
      assert.equal(writer.failure(), null);
    });
  }
});
