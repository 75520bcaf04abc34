import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import fc from "fast-check";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import { deleteExpired } from "../../../storage/tables/expired.ts";
import { claimKeyOp, idempotencyKey } from "../../../storage/tables/idempotency.ts";
import {
  deleteExpiredEntries,
  kvCompareAndSetOp,
  kvCountOp,
  kvDeleteOp,
  kvGet,
  kvSetOp,
} from "../../../storage/tables/kv.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

for (const dialect of dialects) {
  describe(`key-value entries on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let count = 0;
    before(async () => {
      ({ store } = await testStore(dialect, atEnd));
    });

    const freshTenant = (): TenantStore => store.tenant(`kv-${++count}`);
    const value = (text: string, expires_at: number | null = null) => ({ key: "k", value: text, expires_at });

    test("a value exists until it expires, and can be replaced", async () => {
      const kv = freshTenant();

      await kv.write([kvSetOp(kv, value("one", 100), 10)]);
      const first = await kvGet(kv, "k", 99);
      const lapsed = await kvGet(kv, "k", 100);
      await kv.write([kvSetOp(kv, value("two"), 11)]);

      assert.deepEqual(first, { value: "one", version: 10, expires_at: 100 });
      assert.equal(lapsed, undefined);
      assert.deepEqual(await kvGet(kv, "k", 1e12), { value: "two", version: 11, expires_at: null });
    });

    test("concurrent counts succeed up to the limit", async () => {
      const kv = freshTenant();
      const entry = { key: "minute", expires_at: 1_000 };
      const counted = await Promise.allSettled(
        Array.from({ length: 30 }, () => kv.write([kvCountOp(kv, entry, 12, 10)])),
      );

      assert.equal(counted.filter(({ status }) => status === "fulfilled").length, 12);
      assert.equal((await kvGet(kv, "minute", 11))?.value, "12");
      for (const outcome of counted) if (outcome.status === "rejected") assert.equal(outcome.reason.code, "conflict");
    });

    test("compare and set accepts the current version only and returns the new one", async () => {
      const kv = freshTenant();
      const [[made]] = (await kv.write([kvCompareAndSetOp(kv, value("one"), null, 10)])) as [[{ version: number }]];

      const [[replaced]] = (await kv.write([kvCompareAndSetOp(kv, value("two"), made.version, 10)])) as [
        [{ version: number }],
      ];

      assert.deepEqual([made.version, replaced.version], [10, 11]);
      for (const version of [made.version, 12, null])
        await assert.rejects(kv.write([kvCompareAndSetOp(kv, value("three"), version, 10)]), { code: "conflict" });
      assert.equal((await kvGet(kv, "k", 0))?.value, "two");
    });

    test("an expired key can be created again and cannot be replaced", async () => {
      const kv = freshTenant();
      await kv.write([kvSetOp(kv, value("old", 100), 10)]);

      await assert.rejects(kv.write([kvCompareAndSetOp(kv, value("new"), null, 99)]), { code: "conflict" });
      await assert.rejects(kv.write([kvCompareAndSetOp(kv, value("new"), 10, 100)]), { code: "conflict" });
      await kv.write([kvCompareAndSetOp(kv, value("new"), null, 100)]);

      assert.deepEqual(await kvGet(kv, "k", 100), { value: "new", version: 100, expires_at: null });
    });

    test("a version from before a deletion and recreation is refused", async () => {
      const kv = freshTenant();
      await kv.write([kvSetOp(kv, value("one"), 10)]);
      await kv.write([kvSetOp(kv, value("two"), 10)]);

      await kv.write([kvDeleteOp(kv, "k")]);
      await kv.write([kvSetOp(kv, value("three"), 20)]);

      for (const version of [10, 11])
        await assert.rejects(kv.write([kvCompareAndSetOp(kv, value("four"), version, 20)]), { code: "conflict" });
    });

    test("deletion checks a version only when it has one", async () => {
      const kv = freshTenant();
      await kv.write([kvSetOp(kv, value("one"), 10)]);

      await assert.rejects(kv.write([kvDeleteOp(kv, "k", 9)]), { code: "conflict" });
      await kv.write([kvDeleteOp(kv, "k", 10)]);
      await kv.write([kvDeleteOp(kv, "k")]);

      assert.equal(await kvGet(kv, "k", 0), undefined);
    });

    test("one of many concurrent compare and sets succeeds, and versions only grow", async () => {
      const kv = freshTenant();
      await kv.write([kvSetOp(kv, value("0"), 1)]);
      let wins = 0;

      const contend = async (): Promise<void> => {
        for (let round = 0; round < 15; round++) {
          const entry = await kvGet(kv, "k", 0);
          const next = String(Number(entry?.value) + 1);
          await kv.write([kvCompareAndSetOp(kv, value(next), entry?.version as number, 1)]).then(
            () => wins++,
            (error) => assert.equal(error.code, "conflict"),
          );
        }
      };
      await Promise.all([contend(), contend(), contend(), contend()]);

      assert.equal((await kvGet(kv, "k", 0))?.value, String(wins));
      assert.ok(wins >= 15);
    });

    test("it behaves like a map with versions", async () => {
      const step = fc.oneof(
        fc.record({ do: fc.constant("set" as const), key: fc.constantFrom("a", "b"), life: fc.option(fc.nat(20)) }),
        fc.record({ do: fc.constant("create" as const), key: fc.constantFrom("a", "b"), life: fc.option(fc.nat(20)) }),
        fc.record({ do: fc.constant("replace" as const), key: fc.constantFrom("a", "b"), life: fc.option(fc.nat(20)) }),
        fc.record({ do: fc.constant("delete" as const), key: fc.constantFrom("a", "b"), life: fc.constant(null) }),
        fc.record({ do: fc.constant("sweep" as const), key: fc.constant(""), life: fc.constant(null) }),
      );
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
          const kv = freshTenant();
          const model = new Map<string, { value: string; expires_at: number | null }>();
          let now = 100;
          for (const [i, { do: action, key, life }] of steps.entries()) {
            now += 5;
            const entry = model.get(key);
            const alive = entry !== undefined && (entry.expires_at === null || entry.expires_at > now);
            const next = { value: String(i), expires_at: life === null ? null : now + life };
            const seen = await kvGet(kv, key, now);
            const change =
              action === "set"
                ? kvSetOp(kv, { key, ...next }, now)
                : action === "create"
                  ? kvCompareAndSetOp(kv, { key, ...next }, null, now)
                  : kvCompareAndSetOp(kv, { key, ...next }, seen?.version ?? 0, now);
            if (action === "sweep") await deleteExpiredEntries(store.system, now, 10);
            else if (action === "delete") {
              await kv.write([kvDeleteOp(kv, key)]);
              model.delete(key);
            } else {
              const worked = await kv.write([change]).then(
                () => true,
                () => false,
              );
              assert.equal(worked, action === "set" || (action === "create") !== alive);
              if (worked) model.set(key, next);
            }
            for (const each of ["a", "b"]) {
              const kept = model.get(each);
              const expected = kept && (kept.expires_at === null || kept.expires_at > now) ? kept.value : undefined;
              assert.equal((await kvGet(kv, each, now))?.value, expected);
            }
          }
        }),
        { numRuns: 15 },
      );
    });

    test("housekeeping deletes expired values of every tenant, in batches", async () => {
      const [one, two] = [freshTenant(), freshTenant()];
      await deleteExpired(store, Number.MAX_SAFE_INTEGER);
      await one.write(
        Array.from({ length: 1100 }, (_, i) => kvSetOp(one, { key: `old-${i}`, value: "", expires_at: 50 }, 1)),
      );
      await one.write([
        kvSetOp(one, { key: "young", value: "", expires_at: 51 }, 1),
        kvSetOp(one, value("eternal"), 1),
      ]);
      await two.write([kvSetOp(two, value("old", 50), 1)]);
      const claim = (scope: string, expires_at: number) =>
        claimKeyOp(one, { scope, fingerprint: "f", owner: "o", run_id: "r", answer: null, expires_at }, 1);
      await one.write([claim("old", 50), claim("young", 51)]);

      const deleted = await deleteExpired(store, 50);

      const none = {
        ...{ idempotency: 0, kv: 0, plans: 0, rate_buckets: 0, leases: 0, frames: 0 },
        ...{ quarantine: 0, budgets: 0, commands: 0, skill_trees: 0, keys: 0, sign_ins: 0 },
      };
      assert.deepEqual(deleted, { ...none, idempotency: 1, kv: 1101 });
      assert.deepEqual(await deleteExpired(store, 50), none);
      assert.notEqual(await kvGet(one, "young", 0), undefined);
      assert.notEqual(await kvGet(one, "k", 0), undefined);
      assert.notEqual(await idempotencyKey(one, "young", 0), undefined);
      assert.equal(await idempotencyKey(one, "old", 0), undefined);
    });
  });
}
