import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { migrate } from "../../../storage/migrate.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { mcpPins, writeMcpPins } from "../../../storage/tables/mcp-pins.ts";
import { storedBytes } from "../../../storage/tables/stored-bytes.ts";
import { emptyDatabase, gateDialects, runStore, type TestStore, testStore } from "../../support/stores.ts";
import { cleanup, Works } from "../../support/temp.ts";

const pin = (tool: string, digest = "d") => ({
  ...{ manifest: "m", server: "s", tool, digest, pinned_at: 1, pinned_by: "" },
});

for (const dialect of gateDialects)
  describe(`pins of MCP servers on ${dialect}`, () => {
    const atEnd = cleanup();
    let running: TestStore;
    let count = 0;
    before(async () => {
      running = await testStore(dialect, atEnd);
    });
    const freshTenant = () => running.store.tenant(`pins-${++count}`);

    test("a new pin counts among the stored bytes, and a changed one does not count again", async () => {
      const tenant = freshTenant();

      await writeMcpPins(tenant, { first: [pin("a"), pin("b")], changed: [] }, 0);
      await writeMcpPins(tenant, { first: [], changed: [pin("a", "e")] }, 0);

      assert.deepEqual((await mcpPins(tenant, "m", "s")).map(({ tool, digest }) => tool + digest).sort(), ["ae", "bd"]);
      assert.deepEqual([await storedBytes(tenant, "mcp_pins"), await storedBytes(tenant, "all")], [600, 600]);
    });

    test("pins above the quota are refused, and so are those that another writer was first to write", async () => {
      const tenant = freshTenant();
      await writeMcpPins(tenant, { first: [pin("a")], changed: [] }, 900);

      await assert.rejects(writeMcpPins(tenant, { first: [pin("b"), pin("c"), pin("d")], changed: [] }, 900), {
        code: "storage_quota_exceeded",
      });
      await assert.rejects(writeMcpPins(tenant, { first: [pin("a"), pin("b")], changed: [] }, 900), {
        code: "conflict",
      });

      assert.equal(await storedBytes(tenant, "mcp_pins"), 300);
    });

    test("the migration counts earlier pins, and its reverse takes them from the total", async (t) => {
      const config = await emptyDatabase(dialect, cleanup(t));
      await migrate(config, { target: "head", downgrade: false });
      const within = async <T>(work: (tenant: TenantStore) => Promise<T>): Promise<T> => {
        const works = new Works();
        try {
          return await work((await runStore(config, works)).store.tenant("acme"));
        } finally {
          await works.undo();
        }
      };
      const counted = (tenant: TenantStore) =>
        Promise.all([storedBytes(tenant, "mcp_pins"), storedBytes(tenant, "all")]);
      await within((tenant) => writeMcpPins(tenant, { first: [pin("a")], changed: [] }, 0));

      await migrate(config, { target: "0102", downgrade: true });
      const without = await within(counted);
      await migrate(config, { target: "head", downgrade: false });

      assert.deepEqual(
        [without, await within(counted)],
        [
          [0, 0],
          [300, 300],
        ],
      );
    });
  });
