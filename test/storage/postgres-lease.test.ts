// The lease of a host guards its writes, and its renewal does not wait for them.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { enterHostOps, renewHostOp } from "../../storage/tables/hosts.ts";
import { hasPostgresServer, needsServer } from "../support/postgres.ts";
import { onServer, testPool } from "../support/postgres-server.ts";
import { database, has, openWriter, set, waitFor } from "../support/postgres-writer.ts";
import { cleanup } from "../support/temp.ts";

const skip = (await hasPostgresServer()) ? false : needsServer;
const host = "0123456789abcdef";

describe("the writes of a host", { skip }, () => {
  /** A host of a cluster with one connection, and its lease for `leaseMs`. */
  async function oneHost(t: { after(work: () => void): void }, leaseMs: number) {
    const atEnd = cleanup(t as never);
    const url = await database(atEnd);
    const { store } = await openWriter(testPool(url, { shared: true, poolSize: 1, maxOverflow: 1 }), atEnd);
    const renew = (ms: number) => store.system.write([renewHostOp(store.system, host, ms)]);
    await store.system.write(enterHostOps(store.system, { id: host, mode: "cluster", card: null }, leaseMs));
    return { url, store, renew };
  }
  /** Asks on its own connection, because a transaction sees one state of the activity. */
  const isBlocked = (url: string): Promise<boolean> =>
    onServer(url, async (client) => {
      const { rows } = await client.query(
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
      );
      return rows.length > 0;
    });

  test("a lease is renewed while every connection is busy", async (t) => {
    const { url, store, renew } = await oneHost(t, 60_000);

    await onServer(url, async (client) => {
      await client.query("BEGIN; LOCK TABLE kv IN ACCESS EXCLUSIVE MODE");
      const writes = [set(store, "a"), set(store, "b"), set(store, "c")];
      await waitFor(() => isBlocked(url));
      await renew(60_000);
      await client.query("COMMIT");
      await Promise.all(writes);
    });

    assert.equal(await has(store, "c"), true);
  });

  test("a write that waited for a connection past the lease waits for the renewal", async (t) => {
    const { url, store, renew } = await oneHost(t, 2_000);
    let second: Promise<unknown> = Promise.resolve();

    await onServer(url, async (client) => {
      await client.query("BEGIN; LOCK TABLE kv IN ACCESS EXCLUSIVE MODE");
      const first = set(store, "first");
      await waitFor(() => isBlocked(url));
      second = set(store, "second");
      await pause(2_000);
      await client.query("COMMIT");
      await first;
    });
    const before = await has(store, "second");
    await pause(100);
    const stillBefore = await has(store, "second");
    await renew(60_000);
    await second;

    assert.deepEqual([before, stillBefore], [false, false]);
    assert.equal(await has(store, "second"), true);
  });
});
