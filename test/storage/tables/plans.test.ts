import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import { deleteExpired } from "../../../storage/tables/expired.ts";
import {
  deletePlansOps,
  hasPlans,
  newestPlan,
  type PlanRow,
  type PlanWritten,
  planPage,
  removePlan,
  storedPlan,
  writePlan,
} from "../../../storage/tables/plans.ts";
import { storedBytes } from "../../../storage/tables/stored-bytes.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const plan = (id: string, fields: Partial<PlanWritten> = {}): PlanWritten => ({
  id,
  manifest_id: "m",
  thread_id: "",
  created_at: 5,
  expires_at: null,
  plan: "{}",
  ...fields,
});
const how = { now: 10, limit: 0 };

for (const dialect of dialects) {
  describe(`plans on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let count = 0;
    before(async () => {
      ({ store } = await testStore(dialect, atEnd));
    });
    const freshTenant = (): TenantStore => store.tenant(`plans-${++count}`);
    const bytesOf = async (tenant: TenantStore) => [
      await storedBytes(tenant, "plans"),
      await storedBytes(tenant, "all"),
    ];
    async function put(tenant: TenantStore, ...args: Parameters<typeof plan>): Promise<PlanRow> {
      const row = await writePlan(tenant, undefined, plan(...args), how);
      assert.ok(row !== null);
      return row;
    }

    test("of two changes of one version one succeeds, with a later time on any clock", async () => {
      const tenant = freshTenant();
      const first = await put(tenant, "one");

      const [left, right] = await Promise.all([
        writePlan(tenant, first, plan("one", { plan: '{"by":"left"}' }), how),
        writePlan(tenant, first, plan("one", { plan: '{"by":"right"}' }), how),
      ]);

      assert.equal([left, right].filter((row) => row === null).length, 1);
      const taken = left ?? right;
      assert.deepEqual(await storedPlan(tenant, "one"), taken);
      assert.equal(taken?.ts, first.ts + 1);
      assert.equal(await writePlan(tenant, undefined, plan("one"), how), null, "an id that is taken");
      assert.equal(await removePlan(tenant, first), false);
      assert.deepEqual(await bytesOf(tenant), [taken?.bytes, taken?.bytes]);
    });

    test("a plan that the quota refuses changes nothing", async () => {
      const tenant = freshTenant();
      const first = await put(tenant, "one");
      const larger = plan("one", { plan: `{"a":"${"x".repeat(100)}"}` });

      const refused = writePlan(tenant, first, larger, { now: 11, limit: first.bytes + 50 });

      await assert.rejects(refused, { code: "storage_quota_exceeded" });
      assert.deepEqual(await storedPlan(tenant, "one"), first);
      assert.deepEqual(await bytesOf(tenant), [first.bytes, first.bytes]);
    });

    test("a thread's plans are deleted together and free their bytes; others stay", async () => {
      const tenant = freshTenant();
      const other = freshTenant();
      const thread_id = "t:1";
      for (const id of ["a", "b"]) await put(tenant, id, { thread_id });
      const stays = await put(tenant, "c", { thread_id: "t:10" });
      const theirs = await put(other, "a", { thread_id });
      assert.deepEqual([await hasPlans(tenant, thread_id, 2), await hasPlans(tenant, thread_id, 3)], [true, false]);

      await tenant.write(deletePlansOps(tenant, thread_id));

      assert.deepEqual((await planPage(tenant, {}, null, 9)).rows, [stays]);
      assert.deepEqual(await bytesOf(tenant), [stays.bytes, stays.bytes]);
      assert.deepEqual(await storedPlan(other, "a"), theirs);
      assert.deepEqual(await bytesOf(other), [theirs.bytes, theirs.bytes]);
    });

    test("concurrent deletion and change of plans neither blocks nor miscounts", async () => {
      const tenant = freshTenant();
      const thread_id = "t:1";
      const rows = await Promise.all(["a", "b", "c", "d"].map((id) => put(tenant, id, { thread_id })));

      await Promise.all([
        ...rows.map((row) => writePlan(tenant, row, plan(row.id, { thread_id, plan: '{"more":true}' }), how)),
        tenant.write(deletePlansOps(tenant, thread_id)),
        ...rows.map((row) => removePlan(tenant, row)),
      ]);

      const left = (await planPage(tenant, {}, null, 9)).rows.reduce((sum, { bytes }) => sum + bytes, 0);
      assert.deepEqual(await bytesOf(tenant), [left, left]);
    });

    test("a thread's newest plan is the last changed one that has not expired", async () => {
      const tenant = freshTenant();
      const thread_id = "t:1";
      const old = await put(tenant, "old", { thread_id });
      await writePlan(tenant, undefined, plan("over", { thread_id, expires_at: 5000 }), { now: 40, limit: 0 });

      assert.equal((await newestPlan(tenant, thread_id, 4999))?.id, "over");
      assert.equal((await newestPlan(tenant, thread_id, 5000))?.id, "old");
      await writePlan(tenant, old, plan("old", { thread_id }), { now: 60, limit: 0 });
      assert.equal((await newestPlan(tenant, thread_id, 4999))?.id, "old");
      assert.equal(await newestPlan(tenant, "t:2", 49), undefined);
    });

    test("expired plans are swept, of all tenants, and count no longer", async () => {
      const [one, two] = [freshTenant(), freshTenant()];
      await put(one, "old", { expires_at: 50 });
      const young = await put(one, "young", { expires_at: Number.MAX_SAFE_INTEGER });
      await put(two, "old", { expires_at: 49 });

      const deleted = await deleteExpired(store, 50);

      assert.equal(deleted.plans, 2);
      assert.deepEqual((await planPage(one, {}, null, 9)).rows, [young]);
      assert.deepEqual(await bytesOf(one), [young.bytes, young.bytes]);
      assert.deepEqual(await bytesOf(two), [0, 0]);
    });
  });
}
