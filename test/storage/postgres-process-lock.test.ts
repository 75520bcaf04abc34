import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { type Env, systemEnv } from "../../bus/env.ts";
import { migrate } from "../../storage/migrate.ts";
import { takeProcessLock } from "../../storage/postgres/process-lock.ts";
import { startStoreThread } from "../../storage/start.ts";
import { hasPostgresServer, needsServer } from "../support/postgres.ts";
import { onServer, testPool } from "../support/postgres-server.ts";
import { database, has, openWriter, set, waitFor } from "../support/postgres-writer.ts";
import { tcpProxy } from "../support/tcp-proxy.ts";
import { cleanup } from "../support/temp.ts";

const skip = (await hasPostgresServer()) ? false : needsServer;

describe("one process per database", { skip }, () => {
  let url = "";
  const suiteEnd = cleanup();
  before(async () => {
    url = await database(suiteEnd);
  });

  test("a second process is refused with a clear error, and starts after the first ended", async (t) => {
    const atEnd = cleanup(t);
    const config = { engine: "postgres", postgres: testPool(url) } as const;
    const first = startStoreThread(config);
    await first.ready;

    const second = startStoreThread(config);
    const exits: Error[] = [];
    second.onExit((error) => void exits.push(error));
    await assert.rejects(
      second.ready,
      /another svc process uses this database: server process \d+, from .+ since \d{4}/,
    );
    assert.equal(exits.length, 1);
    await first.close();
    const third = startStoreThread(config);
    atEnd.after(() => third.close());

    await third.ready;
  });

  test("another schema of the same database is separate", async (t) => {
    const atEnd = cleanup(t);
    await onServer(url, (client) => client.query("CREATE SCHEMA second"));
    const inSchema = new URL(url);
    inSchema.searchParams.set("options", "-c search_path=second");
    const config = testPool(inSchema.href);

    await migrate({ engine: "postgres", postgres: config }, { target: "head", downgrade: false });
    const first = await openWriter(testPool(url), atEnd);
    const second = await openWriter(config, atEnd);
    await set(first.store, "a");

    assert.deepEqual([await has(first.store, "a"), await has(second.store, "a")], [true, false]);
  });

  test("a process that loses the lock in an outage gets a stop signal and writes no more", async (t) => {
    const atEnd = cleanup(t);
    const own = await database(atEnd);
    const proxy = await tcpProxy(own, atEnd);
    const away = await openWriter(testPool(proxy.url(own), { poolTimeoutSeconds: 60 }), atEnd);
    await set(away.store, "before");

    proxy.cut();
    const waiting = assert.rejects(set(away.store, "late"), { code: "storage_unavailable" });
    const usurper = await openWriter(testPool(own), atEnd);
    proxy.restore();
    await waitFor(async () => away.fatal.length > 0);

    assert.match(String(away.fatal[0]), /another svc process/);
    assert.match(String(away.writer.failure()), /another svc process/);
    await assert.rejects(set(away.store, "later"), { code: "storage_unavailable" });
    await waiting;
    assert.deepEqual([await has(usurper.store, "late"), await has(usurper.store, "later")], [false, false]);
  });

  test("a waiter is refused when another process takes the lock, later ones at once", async (t) => {
    const atEnd = cleanup(t);
    const own = await database(atEnd);
    const proxy = await tcpProxy(own, atEnd);
    const lost: Error[] = [];
    const lock = await takeProcessLock(testPool(proxy.url(own)), systemEnv(), (error) => void lost.push(error));
    atEnd.after(() => lock.release());
    proxy.cut();
    await waitFor(() =>
      lock.whenHeld(0).then(
        () => false,
        () => true,
      ),
    );
    const waiting = assert.rejects(lock.whenHeld(3_600_000), { code: "storage_unavailable" });
    await openWriter(testPool(own), atEnd);

    proxy.restore();

    await waiting;
    assert.equal(lost.length, 1);
    await assert.rejects(lock.whenHeld(3_600_000), { code: "storage_unavailable" });
  });

  test("the store thread ends when it loses the database, and notifies the main thread", async (t) => {
    const atEnd = cleanup(t);
    const own = await database(atEnd);
    const proxy = await tcpProxy(own, atEnd);
    const thread = startStoreThread({ engine: "postgres", postgres: testPool(proxy.url(own)) });
    const exit = new Promise<Error>((resolve) => thread.onExit(resolve));
    await thread.ready;

    proxy.cut();
    await openWriter(testPool(own), atEnd);
    proxy.restore();

    assert.match(String(await exit), /another svc process/);
  });

  test("its own lost connection, still open at the server, does not block it", async (t) => {
    const atEnd = cleanup(t);
    const own = await database(atEnd);
    const proxy = await tcpProxy(own, atEnd);
    const { store, fatal } = await openWriter(testPool(proxy.url(own)), atEnd);
    await set(store, "before");

    proxy.abandon();
    // Writes in progress are refused when the connections drop.
    await waitFor(() =>
      set(store, "after").then(
        () => true,
        () => false,
      ),
    );

    assert.equal(await has(store, "after"), true);
    assert.deepEqual(fatal, []);
  });

  test("a waiter is released once, by the lock's return or by its deadline", async (t) => {
    const atEnd = cleanup(t);
    const own = await database(atEnd);
    const waitMs = 54_321;
    const cancels: number[] = [];
    const system = systemEnv();
    const env: Env = {
      ...system,
      timer(delayMs, work) {
        const timer = system.timer(delayMs, work);
        if (delayMs !== waitMs) return timer;
        const at = cancels.push(0) - 1;
        return {
          cancel() {
            cancels[at] = (cancels[at] ?? 0) + 1;
            timer.cancel();
          },
        };
      },
    };
    const lock = await takeProcessLock(testPool(own), env, () => {});
    atEnd.after(() => lock.release());

    for (let time = 0; time < 3; time++) {
      lock.renew();
      // The lock notices its lost connection a little later.
      for (const waited = cancels.length; cancels.length === waited; ) {
        await nextTurn();
        await lock.whenHeld(waitMs);
      }
    }

    assert.deepEqual(cancels, [1, 1, 1]);
  });

  test("a server that cannot be reached fails the start", async () => {
    const thread = startStoreThread({ engine: "postgres", postgres: testPool("postgres://postgres@127.0.0.1:1/none") });

    await assert.rejects(thread.ready, /ECONNREFUSED/);
    await thread.close();
  });
});
