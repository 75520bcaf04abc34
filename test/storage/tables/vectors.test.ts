// Vectors of texts on both engines: the queue, searches of one tenant, and the search of many vectors.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { connectToSchema } from "../../../storage/postgres/connection.ts";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import {
  deleteVectorsOps,
  nearestSearch,
  nextQueuedTenant,
  queueVectorsOp,
  storeVectors,
  vectorsAreOn,
} from "../../../storage/tables/vectors.ts";
import { dialects, testStore, vectorStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const dimensions = 16;
const form = { model: "m", dimensions };
const nearest = nearestSearch("test_nearest", "memories");
const evenOnly = nearestSearch("test_nearest_even", "memories", "v.key % ? = 0");

/** A vector near the direction `at`; the vectors of one direction differ in their second number. */
function vectorAt(at: number, noise = 0): Float32Array {
  const vector = new Float32Array(dimensions).fill(-0.01);
  vector[at % dimensions] = 1;
  vector[(at + 1) % dimensions] = noise;
  const length = Math.hypot(...vector);
  return vector.map((value) => value / length);
}

async function add(store: TenantStore, keys: readonly number[], of = form): Promise<void> {
  await store.write([queueVectorsOp(store, "memories", keys, 1)]);
  const made = keys.map((key) => ({ key, ts: 1, vector: vectorAt(key, (key % 7) / 20) }));
  await storeVectors(store, "memories", of, made);
}

const range = (from: number, count: number): number[] => Array.from({ length: count }, (_, at) => from + at);
const wanted = (at: number) => ({ ...form, vector: vectorAt(at) });

for (const dialect of dialects)
  describe(`vectors on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    before(async () => {
      ({ store } = await vectorStore(dialect, dimensions, atEnd));
    });

    test("are on", async () => {
      assert.equal(await vectorsAreOn(store.system), true);
    });

    test("a search finds the nearest keys of its tenant and model only", async () => {
      const [acme, other] = [store.tenant("acme"), store.tenant("other")];
      await add(acme, range(0, 32));
      await add(other, range(1_000, 32));
      await add(acme, [40], { model: "older", dimensions });

      const found = await nearest(acme, wanted(8), 2);

      assert.deepEqual(
        found.map(({ key }) => key).toSorted((a, b) => a - b),
        [8, 24],
      );
      assert.ok((found[0]?.similarity ?? 0) > 0.9);
      assert.deepEqual(await nearest(store.tenant("nobody"), wanted(8), 2), []);
    });

    test("a search of many vectors finds the same keys as the exact one, and filters them", async () => {
      const [small, large] = [store.tenant("small"), store.tenant("large")];
      for (let from = 0; from < 600; from += 200) await add(large, range(from, 200));
      await add(small, range(5_000, 32));

      const exact = await nearest(small, wanted(5_008 % dimensions), 2);
      const near = await nearest(small, wanted(5_008 % dimensions), 2, [], 1);
      const even = await evenOnly(small, wanted(5_009 % dimensions), 1, [2], 1);

      assert.equal(exact.length, 2);
      assert.deepEqual(near, exact);
      assert.equal(even.length, 1);
      assert.equal((even[0]?.key ?? 1) % 2, 0);
    });

    test("a changed text gets its new vector", async () => {
      const tenant = store.tenant("edited");
      await add(tenant, [9_000]);
      await tenant.write([queueVectorsOp(tenant, "memories", [9_000], 2)]);

      await storeVectors(tenant, "memories", form, [{ key: 9_000, ts: 2, vector: vectorAt(5) }]);

      const [found] = await nearest(tenant, wanted(5), 1);
      assert.ok((found?.similarity ?? 0) > 0.99);
      assert.deepEqual(await nearest(tenant, wanted(5), 1, [], 0), [found]);
    });

    test("the vector of an old text is not stored, and its text stays in the queue", async () => {
      const tenant = store.tenant("changes");
      await tenant.write([queueVectorsOp(tenant, "memories", [7_000], 1)]);
      await tenant.write([queueVectorsOp(tenant, "memories", [7_000], 2)]);

      await storeVectors(tenant, "memories", form, [{ key: 7_000, ts: 1, vector: vectorAt(3) }]);

      assert.deepEqual(await nearest(tenant, wanted(3), 1), []);
      assert.equal(await nextQueuedTenant(store.system, "chan"), "changes");
    });

    test("a deletion removes vectors and queued texts", async () => {
      const tenant = store.tenant("gone");
      await add(tenant, [8_000, 8_001]);
      await tenant.write([queueVectorsOp(tenant, "memories", [8_002], 1)]);

      await tenant.write(deleteVectorsOps(tenant, "memories", 8_001, 8_100));

      assert.deepEqual(
        (await nearest(tenant, wanted(8_001), 5)).map(({ key }) => key),
        [8_000],
      );
      assert.notEqual(await nextQueuedTenant(store.system, "gon"), "gone");
    });
  });

test("the HNSW index finds the keys of a small tenant beside those of a large one", async (t) => {
  const atEnd = cleanup(t);
  const { store, config } = await vectorStore("postgres", dimensions, atEnd);
  if (config.engine !== "postgres") return;
  const [small, large] = [store.tenant("small"), store.tenant("large")];
  await add(small, range(10_000, 32));
  for (let from = 0; from < 2_000; from += 250) await add(large, range(from, 250));
  const client = await connectToSchema(config.postgres);
  atEnd.after(() => client.end());
  // PGlite has one session. Without sorts, only the index gives the order of a search.
  await client.query("ANALYZE vectors; SET enable_sort = off");
  const scans = async (): Promise<number> => {
    await client.query("SELECT pg_stat_force_next_flush()");
    const { rows } = await client.query("SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = $1", [
      `vectors_near_${dimensions}`,
    ]);
    return Number(rows[0].idx_scan);
  };
  const before = await scans();

  const found: boolean[] = [];
  for (let at = 0; at < dimensions; at++) {
    const exact = await nearest(small, wanted(at), 2);
    const near = await nearest(small, wanted(at), 2, [], 1);
    assert.equal(near.length, 2);
    found.push(...near.map(({ key }) => exact.some((one) => one.key === key)));
  }

  assert.ok((await scans()) >= before + dimensions, "each search above the threshold reads the index");
  assert.ok(found.filter(Boolean).length >= 0.95 * found.length, `${found.filter(Boolean).length} of ${found.length}`);
});

test("vectors are off on a Postgres without pgvector", async (t) => {
  const { store, config } = await testStore("postgres", cleanup(t));
  if (config.engine !== "postgres" || (await vectorsAreOn(store.system))) return t.skip("this server has pgvector");

  assert.equal(await vectorsAreOn(store.system), false);
});
