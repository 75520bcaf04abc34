// Reads without a bound do not block the thread that requests them.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { Worker } from "node:worker_threads";
import { statementNamed, systemSql, tenantSql } from "../../storage/store/statements.ts";
import type { Store, TenantStore } from "../../storage/store/store.ts";
import { kvGet, kvSetOp } from "../../storage/tables/kv.ts";
import { dialects, runStore, type TestStore, testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

// SQLite only: the store thread does not know these statements.
const countTo = systemSql(
  "test_long_count",
  "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT COUNT(*) AS counted FROM n",
);
const ofTenant = tenantSql("test_long_tenant", "SELECT :tenant AS tenant, ? AS given");
const noTable = systemSql("test_long_no_table", "SELECT 1 FROM there_is_no_such_table WHERE 1 = ?");
const noFunction = systemSql("test_long_no_function", "SELECT there_is_no_such_function(?)");

/** Steps of a read that is long enough for other requests to overtake it. */
const manySteps = 1_000_000;
/** Max waiting reads, and the number of reading threads. */
const waitingMax = 64;
const threadsMax = 2;

const set = (tenant: TenantStore, key: string, value: string) =>
  tenant.write([kvSetOp(tenant, { key, value, expires_at: null }, 1)]);

/** Makes a database large enough for long reads. */
const grow = (tenant: TenantStore) => set(tenant, "much", "x".repeat(2 * 1024 * 1024));

for (const dialect of dialects) {
  test(`on ${dialect}, a long read answers like a short one, and sees acknowledged writes`, async (t) => {
    const { store } = await testStore(dialect, cleanup(t));
    const tenant = store.tenant("acme");
    await grow(tenant);
    const select = statementNamed("kv_get");

    for (let i = 0; i < 20; i++) {
      await set(tenant, "key", String(i));
      const long = await tenant.readLong(select, "key", 0);
      assert.deepEqual(long, await tenant.read(select, "key", 0));
      assert.equal(long[0]?.value, String(i));
    }
    assert.deepEqual(await store.tenant("other").readLong(select, "key", 0), []);
  });
}

describe("the compute pool of SQLite", () => {
  const atEnd = cleanup();
  let running: TestStore;
  let store: Store;
  let workers: Worker[];
  before(async () => {
    running = await testStore("sqlite", atEnd);
    store = running.store;
    workers = [];
    const onWorker = (worker: Worker): void => void workers.push(worker);
    process.on("worker", onWorker);
    atEnd.after(() => void process.off("worker", onWorker));
  });

  test("is not used while the database is small: long reads answer and refuse without it", async () => {
    assert.deepEqual(await store.tenant("acme").readLong(ofTenant, 7), [{ tenant: "acme", given: 7 }]);
    await assert.rejects(store.system.readLong(noTable, 1), { code: "storage_unavailable" });
    assert.deepEqual(workers, []);
    await grow(store.tenant("acme"));
  });

  test("has no threads until a long read, and a bounded number then", async () => {
    await kvGet(store.tenant("acme"), "key", 0);
    assert.deepEqual(workers, []);

    const counted = await Promise.all(Array.from({ length: 20 }, () => store.system.readLong(countTo, 1000)));

    assert.deepEqual(new Set(counted.map(([row]) => row?.counted)), new Set([1000]));
    assert.ok(workers.length >= 1 && workers.length <= threadsMax, `${workers.length} threads`);
  });

  test("lets its thread continue: short reads and writes overtake the long ones", async () => {
    const order: string[] = [];
    const long = store.system.readLong(countTo, manySteps).then(() => order.push("long"));

    for (let i = 0; i < 5; i++) {
      await set(store.tenant("acme"), "overtaking", String(i));
      assert.equal((await kvGet(store.tenant("acme"), "overtaking", 0))?.value, String(i));
      order.push("short");
    }
    await long;

    assert.deepEqual(order, ["short", "short", "short", "short", "short", "long"]);
  });

  test("refuses what exceeds its queue with storage_unavailable, and answers the rest", async () => {
    const asked = waitingMax + threadsMax + 10;

    const outcomes = await Promise.allSettled(
      Array.from({ length: asked }, () => store.system.readLong(countTo, 10_000)),
    );

    const refused = outcomes.filter(({ status }) => status === "rejected");
    assert.ok(refused.length >= asked - waitingMax - threadsMax && refused.length < asked, `${refused.length} refused`);
    for (const { reason } of refused as PromiseRejectedResult[]) assert.equal(reason.code, "storage_unavailable");
    assert.deepEqual(await store.system.readLong(countTo, 3), [{ counted: 3 }]);
  });

  test("keeps tenants apart, and refuses as short reads do", async () => {
    assert.deepEqual(await store.tenant("acme").readLong(ofTenant, 7), [{ tenant: "acme", given: 7 }]);
    await assert.rejects(store.system.readLong(noTable, 1), { code: "storage_unavailable" });
    await assert.rejects(store.system.readLong(noFunction, 1), (error: { code?: string; cause?: unknown }) => {
      assert.equal(error.code, "internal_error");
      assert.match(String(error.cause), /there_is_no_such_function/);
      return true;
    });
    assert.throws(() => store.system.readLong(ofTenant, 1), /must run through store\.tenant/);
  });

  test("survives its threads: running and queued reads fail, and the next one succeeds", async () => {
    await store.system.readLong(countTo, 1);
    const seen = workers.length;
    const outcomes = Promise.allSettled(Array.from({ length: 6 }, () => store.system.readLong(countTo, manySteps)));

    await Promise.all(workers.map((worker) => worker.terminate()));

    const refused = (await outcomes).filter(({ status }) => status === "rejected") as PromiseRejectedResult[];
    assert.ok(refused.length >= 4, `${refused.length} refused`);
    for (const { reason } of refused) assert.equal(reason.code, "storage_unavailable");
    assert.deepEqual(await store.system.readLong(countTo, 2), [{ counted: 2 }]);
    assert.ok(workers.length > seen);
  });

  test("ends with its store: queued reads are refused and no thread remains", async (t) => {
    const other = await runStore(running.config, cleanup(t));
    const from = workers.length;
    await other.store.system.readLong(countTo, 1);
    const waiting = Array.from({ length: 5 }, () => other.store.system.readLong(countTo, manySteps));
    const outcomes = Promise.allSettled(waiting);

    other.store.close();

    for (const { status } of await outcomes) assert.equal(status, "rejected");
    await assert.rejects(other.store.system.readLong(countTo, 1), { code: "storage_unavailable" });
    const pool = workers.slice(from);
    assert.ok(pool.length > 0);
    await Promise.all(
      pool.map((worker) => worker.threadId === -1 || new Promise((ended) => worker.once("exit", ended))),
    );
    assert.deepEqual(
      pool.map(({ threadId }) => threadId),
      pool.map(() => -1),
    );
  });
});
