import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import fc from "fast-check";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import { insertUsageOp, threadsUsage, type UsageRow, usagePage, usageSummary } from "../../../storage/tables/usage.ts";
import { runs } from "../../support/effort.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const dayMs = 86_400_000;

function row(id: string, ts: number, changes: Partial<UsageRow> = {}): UsageRow {
  return {
    id,
    ts,
    manifest_id: "m",
    model_id: "fast",
    wire_model_id: "fast-1",
    kind: "tokens",
    tokens_input: 10,
    tokens_output: 20,
    cache_creation: 1,
    cache_read: 2,
    cost_usd: 0.1,
    thread_id: "acme:t1",
    meta_json: "{}",
    ...changes,
  };
}

function utcDay(ts: number): string {
  return new Date(ts).toISOString().slice(0, 10);
}

for (const dialect of dialects) {
  describe(`usage on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let count = 0;
    before(async () => {
      ({ store } = await testStore(dialect, atEnd));
    });

    async function tenantWith(rows: readonly UsageRow[]): Promise<TenantStore> {
      const tenant = store.tenant(`usage-${++count}`);
      await tenant.write(rows.map((each) => insertUsageOp(tenant, each)));
      return tenant;
    }

    test("USAGE-001 rows are newest first as written, by pages, filters and cursor", async () => {
      const rows = [
        row("a", 1),
        row("b", 2, { manifest_id: "n" }),
        row("c", 2, { thread_id: "acme:t2", cost_usd: 1e-9 }),
        row("d", 3),
      ];
      const tenant = await tenantWith(rows);

      const first = await usagePage(tenant, {}, null, 3);
      const second = await usagePage(tenant, {}, first.next_cursor, 3);
      const ofManifest = await usagePage(tenant, { manifest_id: "n" }, null, 10);
      const ofThread = await usagePage(tenant, { thread_id: "acme:t2", manifest_id: "m" }, null, 10);

      assert.deepEqual(first.rows, [rows[3], rows[2], rows[1]]);
      assert.deepEqual(second, { rows: [rows[0]], next_cursor: null });
      assert.deepEqual(ofManifest, { rows: [rows[1]], next_cursor: null });
      assert.deepEqual(ofThread, { rows: [rows[2]], next_cursor: null });
      await assert.rejects(usagePage(tenant, {}, "nonsense", 3), { code: "invalid_cursor" });
    });

    test("USAGE-002 the summary is by manifest, model and UTC day, newest first, with true totals", async () => {
      const day = Date.UTC(2026, 1, 28);
      const tenant = await tenantWith([
        row("a", day),
        row("b", day + dayMs - 1, { cost_usd: 0.2 }),
        row("c", day + dayMs),
        row("d", day + dayMs, { model_id: "slow" }),
        row("e", day + dayMs, { manifest_id: "a-first" }),
        row("before", day - 1),
        row("at-end", day + 2 * dayMs),
      ]);

      const { items, totals } = await usageSummary(tenant, { since: day, until: day + 2 * dayMs }, null);

      assert.deepEqual(
        items.map(({ day: at, manifest_id, model_id, calls, cost_usd }) => [
          at,
          manifest_id,
          model_id,
          calls,
          cost_usd,
        ]),
        [
          ["2026-03-01", "a-first", "fast", 1, 0.1],
          ["2026-03-01", "m", "fast", 1, 0.1],
          ["2026-03-01", "m", "slow", 1, 0.1],
          ["2026-02-28", "m", "fast", 2, 0.3],
        ],
      );
      assert.deepEqual(totals, {
        calls: 5,
        tokens_input: 50,
        tokens_output: 100,
        cache_creation: 5,
        cache_read: 10,
        cost_usd: 0.6,
      });
      const one = await usageSummary(tenant, { since: day, until: day + 2 * dayMs }, "a-first");
      assert.deepEqual([one.items.length, one.totals.calls], [1, 1]);
    });

    test("USAGE-002 costs are rounded to 8 decimals, and totals before that", async () => {
      const tenant = await tenantWith(
        Array.from({ length: 3 }, (_, i) => row(`r${i}`, i * dayMs, { cost_usd: 0.000_000_004 })),
      );

      const { items, totals } = await usageSummary(tenant, { since: 0, until: 10 * dayMs }, null);

      assert.deepEqual(
        items.map(({ cost_usd }) => cost_usd),
        [0, 0, 0],
      );
      assert.equal(totals.cost_usd, 0.000_000_01);
    });

    test("USAGE-002 every window sums exactly its rows, whichever days it cuts, of one tenant", async () => {
      const rows = Array.from({ length: 200 }, (_, i) =>
        row(`r${i}`, Math.floor(((i * 7919) % 200) * 0.05 * dayMs) + (i % 3), {
          manifest_id: `m${i % 3}`,
          model_id: `r${i % 2}`,
          tokens_input: i,
          cost_usd: i / 4,
        }),
      );
      const tenant = await tenantWith(rows);
      await tenantWith(rows);
      const edges = [0, 1, dayMs / 2, dayMs - 1, dayMs, dayMs + 1, 3 * dayMs, 4.5 * dayMs, 9 * dayMs + 7, 20 * dayMs];

      await fc.assert(
        fc.asyncProperty(
          fc.oneof(fc.constantFrom(...edges), fc.integer({ min: 0, max: 11 * dayMs })),
          fc.oneof(fc.constantFrom(...edges), fc.integer({ min: 1, max: 11 * dayMs })),
          fc.constantFrom(null, "m1"),
          async (one, other, manifest) => {
            const window = { since: Math.min(one, other), until: Math.max(one, other) };
            const within = rows.filter(
              ({ ts, manifest_id }) =>
                ts >= window.since && ts < window.until && (manifest === null || manifest_id === manifest),
            );

            const { items, totals } = await usageSummary(tenant, window, manifest);

            const keyOf = (each: UsageRow) => `${utcDay(each.ts)} ${each.manifest_id} ${each.model_id}`;
            assert.deepEqual(
              items
                .map(({ day, manifest_id, model_id, calls }) => `${day} ${manifest_id} ${model_id} ${calls}`)
                .toSorted(),
              Object.entries(Object.groupBy(within, keyOf))
                .map(([key, group]) => `${key} ${group?.length}`)
                .toSorted(),
            );
            assert.equal(
              totals.tokens_input,
              within.reduce((sum, each) => sum + each.tokens_input, 0),
            );
            assert.equal(
              totals.cost_usd,
              within.reduce((sum, each) => sum + each.cost_usd, 0),
            );
          },
        ),
        { numRuns: runs(150) },
      );
    });

    test("USAGE-002 concurrent rows all count, a resent row once, and a refused batch's row never", async () => {
      const tenant = await tenantWith([]);
      const models = ["a", "b"];
      const batch = (n: number) =>
        (n % 2 === 0 ? models : models.toReversed()).map((model_id) =>
          insertUsageOp(tenant, row(`${model_id}${n}`, 5, { model_id })),
        );

      await Promise.all(Array.from({ length: 100 }, (_, n) => tenant.write(batch(n))));
      const again = insertUsageOp(tenant, row("a0", 5));
      await tenant.write([again]);
      const refused = [insertUsageOp(tenant, row("new", 5)), { ...again, expect: 1 }];
      await assert.rejects(tenant.write(refused), { code: "conflict" });

      const { items } = await usageSummary(tenant, { since: 0, until: 10 * dayMs }, null);
      assert.deepEqual(
        items.map(({ model_id, calls, tokens_output }) => [model_id, calls, tokens_output]),
        [
          ["a", 100, 2000],
          ["b", 100, 2000],
        ],
      );
    });

    test("USAGE-003 threads are most recently active first; totals count those beyond the limit", async () => {
      const tenant = await tenantWith([
        row("a", 10, { thread_id: "acme:old" }),
        row("b", 11, { thread_id: "acme:new" }),
        row("c", 30, { thread_id: "acme:new" }),
        row("d", 20, { thread_id: "acme:mid" }),
        row("e", 20, { thread_id: "" }),
        row("f", 40, { thread_id: "acme:after" }),
      ]);

      const all = await threadsUsage(tenant, { since: 10, until: 40 }, 10);
      const cut = await threadsUsage(tenant, { since: 10, until: 40 }, 2);

      assert.deepEqual(
        all.items.map(({ thread_id, calls, first_ts, last_ts }) => [thread_id, calls, first_ts, last_ts]),
        [
          ["acme:new", 2, 11, 30],
          ["acme:mid", 1, 20, 20],
          ["acme:old", 1, 10, 10],
        ],
      );
      assert.equal(all.truncated, false);
      assert.deepEqual(cut.items, all.items.slice(0, 2));
      assert.equal(cut.truncated, true);
      assert.deepEqual(cut.totals, all.totals);
      assert.deepEqual([all.totals.calls, all.totals.cost_usd], [4, 0.4]);
    });

    test("no usage is an empty list with totals of zero", async () => {
      const tenant = await tenantWith([]);
      const zero = { calls: 0, tokens_input: 0, tokens_output: 0, cache_creation: 0, cache_read: 0, cost_usd: 0 };

      assert.deepEqual(await usagePage(tenant, {}, null, 10), { rows: [], next_cursor: null });
      assert.deepEqual(await usageSummary(tenant, { since: 0, until: 1 }, null), { items: [], totals: zero });
      assert.deepEqual(await threadsUsage(tenant, { since: 0, until: 1 }, 10), {
        items: [],
        totals: zero,
        truncated: false,
      });
    });
  });
}
