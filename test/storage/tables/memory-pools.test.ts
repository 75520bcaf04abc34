import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { consolidateDue } from "../../../actors/memory/due-memory.ts";
import type { Bus } from "../../../bus/bus.ts";
import type { Store } from "../../../storage/store/store.ts";
import { addFactsOp, duePools, putOffPoolOp, settlePoolOp } from "../../../storage/tables/memory-pools.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

for (const dialect of dialects)
  describe(`pools of memories on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    before(async () => {
      ({ store } = await testStore(dialect, atEnd));
    });
    const add = (tenant: string, owner: string, facts: number) =>
      store.tenant(tenant).write([addFactsOp(store.tenant(tenant), { manifest_id: "m", owner }, facts, 10)]);
    async function told(): Promise<string[]> {
      const keys: string[] = [];
      const tell = ({ key }: { readonly key: string }) => keys.push(key);
      await consolidateDue(store, { tell } as unknown as Bus);
      return keys.toSorted();
    }

    test("TASK-010 the task wakes each tenant with due pools, however many another tenant has", async () => {
      for (let at = 0; at < 60; at++) await add("big", `o${at}`, 1_000);
      await add("small", "", 10);
      await add("young", "", 9);

      assert.deepEqual([...new Set(await told())], ["big", "small"]);
    });

    test("a pool that was put off is due last, after its delay, and settling ends the delay", async () => {
      const tenant = store.tenant("late");
      const shared = { manifest_id: "m", owner: "" };
      await add("late", "", 30);
      await add("late", "ann", 10);
      const due = async () => (await duePools(tenant, 10)).map(({ owner }) => owner);

      await tenant.write([putOffPoolOp(tenant, shared, 600_000, true)]);
      const during = await due();
      await tenant.write([putOffPoolOp(tenant, shared, 0, true)]);
      const after = await due();
      const [first, last] = await duePools(tenant, 10);
      await tenant.write([settlePoolOp(tenant, shared, 20, 10)]);
      const settled = await duePools(tenant, 10);

      assert.deepEqual([during, after], [["ann"], ["ann", ""]]);
      assert.deepEqual([first?.failures, last?.failures], [0, 2]);
      assert.deepEqual(settled.find(({ owner }) => owner === "")?.failures, 0);
      assert.deepEqual(await duePools(store.tenant("other"), 10), []);
    });
  });
