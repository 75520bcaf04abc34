import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { migrate } from "../../storage/migrate.ts";
import { startStoreThread } from "../../storage/start.ts";
import { hasPostgresServer, needsServer, onServer, testPool } from "../support/postgres.ts";
import { database, has, openWriter, set, waitFor } from "../support/postgres-writer.ts";
import { tcpProxy } from "../support/tcp-proxy.ts";
import { cleanup } from "../support/temp.ts";

const skip = (await hasPostgresServer()) ? false : needsServer;

describe("one process for a database", { skip }, () => {
  let url = "";
  const suiteEnd = cleanup();
  before(async () => {
    url = await database(suiteEnd);
  });

  test("a second process is refused with a clear error, and gets the database when the first has ended", async (t) => {
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

  test("another schema of the same database is another home", async (t) => {
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

  test("who loses the lock to another process while it was away is told to end, and writes nothing more", async (t) => {
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

  test("the store thread ends when it loses the database, and the main thread hears of it", async (t) => {
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

  test("its own lost connection, which the server still believes in, does not keep it out", async (t) => {
    const atEnd = cleanup(t);
    const own = await database(atEnd);
    const proxy = await tcpProxy(own, atEnd);
    const { store, fatal } = await openWriter(testPool(proxy.url(own)), atEnd);
    await set(store, "before");

    proxy.abandon();
    // What is under way when the connections drop is refused.
    await waitFor(() =>
      set(store, "after").then(
        () => true,
        () => false,
      ),
    );

    assert.equal(await has(store, "after"), true);
    assert.deepEqual(fatal, []);
  });

  test("a server that cannot be reached fails the start", async () => {
    const thread = startStoreThread({ engine: "postgres", postgres: testPool("postgres://postgres@127.0.0.1:1/none") });

    await assert.rejects(thread.ready, /ECONNREFUSED/);
    await thread.close();
  });
});
