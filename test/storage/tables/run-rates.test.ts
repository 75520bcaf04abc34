// Outcomes of runs by manifest and version.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import { setManifestPointerOp } from "../../../storage/tables/manifests.ts";
import {
  deleteUnseenRates,
  outcomesPage,
  setUsualRateOp,
  usualRate,
  type VersionOutcomes,
} from "../../../storage/tables/run-rates.ts";
import { insertEndedRunOp, type RunEnd } from "../../../storage/tables/runs.ts";
import { newRun } from "../../support/rows.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const start = { ended_at: 0, run_key: Number.MIN_SAFE_INTEGER };

for (const dialect of dialects)
  describe(`rates of runs on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let count = 0;
    before(async () => {
      ({ store } = await testStore(dialect, atEnd));
    });

    function ended(
      tenant: TenantStore,
      ended_at: number,
      {
        manifest = "m",
        version = 1 as number | null,
        started_at = 1,
        status = "completed" as RunEnd["status"],
        error = null as string | null,
      } = {},
    ) {
      const run = newRun(`r${++count}`, { manifest, manifest_version: version, started_at });
      return insertEndedRunOp(tenant, run, { ended_at, last_seq: null, status, stop_reason: null, error, usage: null });
    }
    const pointer = (tenant: TenantStore, canary_version: number | null, updated_at: number) =>
      setManifestPointerOp(tenant, {
        name: "m",
        version: 1,
        canary_version,
        canary_weight: 5,
        updated_at,
        updated_by: "p",
      });
    async function all(until: number, limit: number, after = start): Promise<VersionOutcomes[]> {
      const { items, last } = await outcomesPage(store.system, after, until, limit);
      return last === null ? [] : [...items, ...(await all(until, limit, last))];
    }
    const lines = (items: readonly VersionOutcomes[]) =>
      items
        .map(({ tenant_id, manifest, version, rollout, failures, runs, ofRollout }) =>
          [
            tenant_id,
            manifest,
            version,
            `${failures}/${runs}`,
            rollout,
            `${ofRollout.failures}/${ofRollout.runs}`,
          ].join(" "),
        )
        .toSorted();

    test("TASK-011 outcomes are counted by tenant, manifest and version, rollouts apart, in pages", async () => {
      const [acme, globex] = [store.tenant("acme"), store.tenant("globex")];
      const failed = { status: "failed", error: "model_failed" } as const;
      await acme.write([
        pointer(acme, 2, 50),
        ended(acme, 100, { started_at: 49, version: 2, ...failed }),
        ended(acme, 100, { started_at: 50, version: 2, ...failed }),
        ended(acme, 101, { started_at: 60, version: 2, status: "dead", error: "model_failed" }),
        ended(acme, 101, { started_at: 60, version: 2 }),
        ended(acme, 102, { started_at: 60 }),
        ended(acme, 102, { manifest: "operators", version: null, ...failed }),
        // These outcomes do not show whether the manifest is at fault.
        ended(acme, 103, { status: "failed", error: "aborted" }),
        ended(acme, 103, { status: "failed", error: "interrupted" }),
        ended(acme, 103, { status: "expired", error: "expired" }),
        // Outside the window.
        ended(acme, 200, failed),
      ]);
      await globex.write([pointer(globex, null, 50), ended(globex, 100, { started_at: 60, ...failed })]);
      const expected = [
        "acme m 1 0/1 50 0/1",
        "acme m 2 3/4 50 2/3",
        "acme operators  1/1  0/0",
        "globex m 1 1/1  0/0",
      ];

      assert.deepEqual(lines(await all(199, 100)), expected);
      const paged = await all(199, 2);
      const sums = (of: readonly VersionOutcomes[]) =>
        of.reduce(
          (sum, { failures, runs, ofRollout }) =>
            sum + failures + 10 * runs + 100 * ofRollout.runs + 1000 * ofRollout.failures,
          0,
        );
      assert.ok(paged.length > expected.length, "a page has two runs");
      assert.equal(sums(paged), sums(await all(199, 100)));
      assert.deepEqual(await all(99, 100), []);
    });

    test("TASK-011 a manifest's usual rate is the tenant's, and is deleted when it does not run", async () => {
      const [acme, globex] = [store.tenant("acme"), store.tenant("globex")];
      const rate = { manifest: "m", runs: 10.5, failures: 2.25, seen_at: 77 };
      await acme.write([setUsualRateOp(acme, { ...rate, runs: 1 })]);
      await acme.write([setUsualRateOp(acme, rate)]);
      await globex.write([setUsualRateOp(globex, { ...rate, seen_at: 78 })]);

      assert.deepEqual(await usualRate(acme, "m"), rate);
      assert.equal(await deleteUnseenRates(store.system, 78, 10), 1);
      assert.equal(await usualRate(acme, "m"), undefined);
      assert.equal((await usualRate(globex, "m"))?.seen_at, 78);
    });
  });
