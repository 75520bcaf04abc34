import assert from "node:assert/strict";
import { test } from "node:test";
import { inMemoryEventLog } from "../../../../actors/run/event-log/in-memory-event-log.ts";
import { systemEnv } from "../../../../bus/env.ts";
import { SvcError } from "../../../../bus/errors.ts";
import type { Store, TenantStore } from "../../../../storage/store/store.ts";
import { insertUsageOp, type UsageRow, usagePage, usageSummary } from "../../../../storage/tables/usage.ts";
import { gateDialects, testStore } from "../../../support/stores.ts";
import { cleanup } from "../../../support/temp.ts";

const row: UsageRow = {
  id: "call",
  ts: 5,
  manifest_id: "m",
  model_id: "route",
  wire_model_id: "wire",
  kind: "tokens",
  tokens_input: 7,
  tokens_output: 1,
  cache_creation: 0,
  cache_read: 0,
  cost_usd: 0,
  thread_id: "",
  meta_json: "{}",
};

for (const dialect of gateDialects)
  test(`usage with a lost acknowledgement counts once and blocks no end, on ${dialect}`, async (t) => {
    const { store } = await testStore(dialect, cleanup(t));
    const real = store.tenant("acme");
    let lost = 1;
    const lossy: TenantStore = {
      tenantId: "acme",
      inOrder: real.inOrder,
      op: (...given) => real.op(...given),
      read: (...given) => real.read(...given),
      readLong: (...given) => real.readLong(...given),
      async write(...given) {
        const rows = await real.write(...given);
        if (lost-- > 0) throw new SvcError("storage_unavailable");
        return rows;
      },
    };
    const log = inMemoryEventLog({ ...store, tenant: () => lossy } satisfies Store, "acme", "run", systemEnv());
    await log.append([], [insertUsageOp(real, row)]);

    await assert.rejects(() => log.writeUsage(), { code: "storage_unavailable" });
    await log.end([], () => [], { status: "completed", stop_reason: "end_turn", error: null, usage: null }, null);

    assert.deepEqual((await usagePage(real, {}, null, 10)).rows, [row]);
    const { totals } = await usageSummary(real, { since: 0, until: 10 }, null);
    assert.deepEqual([totals.calls, totals.tokens_input], [1, 7]);
  });
