import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { writeCursor } from "../../../storage/store/cursor.ts";
import type { Param } from "../../../storage/store/statements.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { usagePage } from "../../../storage/tables/usage.ts";

/** A store without rows that records its parameters. */
function asked(): { store: TenantStore; params: (readonly Param[])[] } {
  const params: (readonly Param[])[] = [];
  const store: TenantStore = {
    tenantId: "acme",
    inOrder: true,
    op: () => assert.fail("a list writes nothing"),
    write: () => assert.fail("a list writes nothing"),
    readLong: () => assert.fail("a page by one index is no long read"),
    async read(_statement, ...given) {
      params.push(given);
      return [];
    },
  };
  return { store, params };
}

describe("a page of a window", () => {
  const older = writeCursor([300, "b"]);
  const newer = writeCursor([700, "b"]);
  const cases = [
    ["begins at its end", { until: 500 }, null, [500, "", 0]],
    ["begins at its end, and goes on from a cursor that is older", { until: 500, since: 100 }, older, [300, "b", 100]],
    ["begins at its end, where a cursor is newer", { until: 500 }, newer, [500, "", 0]],
    ["that has no end begins at a cursor", {}, newer, [700, "b", 0]],
    ["that ends in the millisecond of a cursor has nothing of it", { until: 300 }, older, [300, "", 0]],
  ] as const;
  for (const [what, filter, cursor, expected] of cases)
    test(`${what}: rows outside it are not scanned`, async () => {
      const { store, params } = asked();

      await usagePage(store, filter, cursor, 10);

      assert.deepEqual(params, [[...expected, 11]]);
    });
});
