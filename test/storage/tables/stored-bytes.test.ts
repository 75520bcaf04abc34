import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import { storedBytes, writeStored } from "../../../storage/tables/stored-bytes.ts";
import { insertVersions } from "../../support/rows.ts";
import { dialects, type TestStore, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const kind = "manifests";

for (const dialect of dialects) {
  describe(`stored bytes on ${dialect}`, () => {
    const atEnd = cleanup();
    let running: TestStore;
    let count = 0;
    before(async () => {
      running = await testStore(dialect, atEnd);
    });
    const freshTenant = (store: Store = running.store): TenantStore => store.tenant(`stored-${++count}`);
    const both = async (tenant: TenantStore) => [await storedBytes(tenant, kind), await storedBytes(tenant, "all")];

    test("written bytes count for their kind and in total, and deleted ones are freed", async () => {
      const tenant = freshTenant();

      await writeStored(tenant, { kind, bytes: 60 }, 100, []);
      await writeStored(tenant, { kind, bytes: 40 }, 100, []);
      assert.deepEqual(await both(tenant), [100, 100]);
      await writeStored(tenant, { kind, bytes: -70 }, 100, []);
      await writeStored(tenant, { kind, bytes: 0 }, 10, []);

      assert.deepEqual(await both(tenant), [30, 30]);
    });

    test("a batch above the limit is refused with the figures and rolled back", async () => {
      const tenant = freshTenant();
      await writeStored(tenant, { kind, bytes: 60 }, 100, []);

      const refused = writeStored(tenant, { kind, bytes: 41 }, 100, insertVersions(tenant, "m", 1));

      await assert.rejects(refused, {
        code: "storage_quota_exceeded",
        details: { detail: { quota: "SVC_TENANT_STORED_BYTES", limit_bytes: 100, used_bytes: 60, asked_bytes: 41 } },
      });
      assert.deepEqual(await both(tenant), [60, 60]);
      // The batch was rolled back, so this version can be inserted.
      await writeStored(tenant, { kind, bytes: 40 }, 100, insertVersions(tenant, "m", 1));
      const first = freshTenant();
      await assert.rejects(writeStored(first, { kind, bytes: 101 }, 100, []), { code: "storage_quota_exceeded" });
      assert.deepEqual(await both(first), [0, 0]);
    });

    test("a batch that is refused for another reason counts nothing and gives that reason", async () => {
      const tenant = freshTenant();
      await writeStored(tenant, { kind, bytes: 10 }, 100, insertVersions(tenant, "m", 1));

      const refused = writeStored(tenant, { kind, bytes: 10 }, 100, insertVersions(tenant, "m", 1));

      await assert.rejects(refused, { code: "conflict" });
      assert.deepEqual(await both(tenant), [10, 10]);
    });

    test("concurrent writes fill a limit to the byte, and none passes it", async () => {
      const id = `stored-${++count}`;
      const stores = [running.store, running.another(), running.another()].map((store) => store.tenant(id));

      const outcomes = await Promise.all(
        Array.from({ length: 60 }, (_, n) =>
          writeStored(stores[n % 3] as TenantStore, { kind, bytes: 10 }, 250, []).then(
            () => "stored",
            (error) => error.code,
          ),
        ),
      );

      const refused = outcomes.filter((outcome) => outcome === "storage_quota_exceeded");
      assert.deepEqual([outcomes.filter((outcome) => outcome === "stored").length, refused.length], [25, 35]);
      assert.deepEqual(await both(stores[0] as TenantStore), [250, 250]);
    });

    test("limits are per tenant and optional, and a lower one refuses only additions", async () => {
      const [mine, theirs] = [freshTenant(), freshTenant()];
      await writeStored(mine, { kind, bytes: 100 }, 100, []);

      await writeStored(theirs, { kind, bytes: 100 }, 100, []);
      await writeStored(mine, { kind, bytes: 2 ** 40 }, 0, []);
      await writeStored(mine, { kind, bytes: -1 }, 10, []);

      assert.deepEqual(await both(mine), [99 + 2 ** 40, 99 + 2 ** 40]);
      await assert.rejects(writeStored(mine, { kind, bytes: 1 }, 10, []), { code: "storage_quota_exceeded" });
    });
  });
}
