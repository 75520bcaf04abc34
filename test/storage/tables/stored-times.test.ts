// Times that were stored while a clock was ahead: each is computed again from its source, without knowledge of the
// error.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { systemSql } from "../../../storage/store/statements.ts";
import { backOffMs } from "../../../storage/tables/back-off.ts";
import { claimDeliveries, nextDueMs, outboxOps, putOffDeliveryOp } from "../../../storage/tables/deliveries.ts";
import { acceptDurableOp, durableRowById, putOffDurableOp } from "../../../storage/tables/durable-rows.ts";
import { storedJob, storeNow, writeJob } from "../../../storage/tables/jobs.ts";
import { runBegun } from "../../../storage/tables/runs.ts";
import { moveTimesAhead, skipMissedTimes } from "../../../storage/tables/stored-times.ts";
import { newRun } from "../../support/rows.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const minute = 60_000;
const hour = 60 * minute;
const addToWakes = systemSql("test_wakes_later", "UPDATE fibers SET wake_at = wake_at + CAST(? AS BIGINT)");
const addToDue = systemSql("test_due_later", "UPDATE deliveries SET due_at = due_at + CAST(? AS BIGINT)");
const addToJobs = systemSql("test_jobs_later", "UPDATE jobs SET next_run_at = next_run_at + CAST(? AS BIGINT)");
const owner = { sub: "wanda", scopes: [], scheme: "none", issuer: "" };
const job = { schedule: "0 * * * *", manifest_id: "m", payload: {}, enabled: 1, owner };
/** The next whole hour. */
const hourly = (_schedule: string, after: number): number => (Math.floor(after / hour) + 1) * hour;

test("a pause doubles from a minute to an hour", () => {
  assert.deepEqual(
    [0, 1, 2, 6, 7, 1_000].map((failures) => backOffMs(failures) / minute),
    [0, 1, 2, 32, 60, 60],
  );
});

for (const dialect of dialects)
  for (const aheadMs of [2 * hour, 24 * hour])
    describe(`times on ${dialect} that were stored by a clock ${aheadMs / hour} hours ahead`, async () => {
      const { store } = await testStore(dialect, cleanup());
      const tenant = store.tenant("acme");
      let epoch = 0;
      const accept = async (...ids: string[]) => {
        const now = await storeNow(store.system);
        const rows = ids.map((id) =>
          runBegun(newRun(id, { started_at: now }), { thread_key: 1, epoch: epoch++, first_seq: 0 }, "accepted"),
        );
        await tenant.write(rows.map((row) => acceptDurableOp(tenant, row, "t", now)));
        return now;
      };

      test("the sweep corrects times of jobs, run retries and webhook retries once", async () => {
        const now = await accept("ready", "failed", "resting");
        await tenant.write([
          putOffDurableOp(tenant, "failed", minute, true),
          putOffDurableOp(tenant, "failed", minute, true),
        ]);
        const endpoints = ["ops", "busy", "new"];
        await tenant.write(outboxOps(tenant, { source: "r", type: "run.completed", body: "{}", endpoints }));
        const [claimed] = await claimDeliveries(tenant, "ops", { owner: "o", forMs: minute, limit: 1 });
        if (claimed) await tenant.write([putOffDeliveryOp(tenant, claimed, minute)]);
        await claimDeliveries(tenant, "busy", { owner: "o", forMs: minute, limit: 1 });
        await writeJob(
          tenant,
          undefined,
          { name: "j", ...job },
          { now, next_run_at: hourly("", now), limit: 0, ops: [] },
        );
        const later = [addToWakes, addToDue, addToJobs].map((statement) => store.system.op(statement, [aheadMs]));
        await store.system.write(later);
        // Not longer than the max rest of a retry.
        await tenant.write([putOffDurableOp(tenant, "resting", hour, false)]);

        const moved = await moveTimesAhead(store.system, hourly);
        const again = await moveTimesAhead(store.system, hourly);

        const [ready, failed, resting] = await Promise.all(
          ["ready", "failed", "resting"].map((id) => durableRowById(tenant, id)),
        );
        const restsMs = [ready, failed, resting].map((row) => Number(row?.wake_at) - now);
        const dueMs = await Promise.all(endpoints.map((endpoint) => nextDueMs(tenant, endpoint)));
        assert.deepEqual(moved, { jobs: 1, runs: 2, deliveries: 2 });
        assert.deepEqual(again, { jobs: 0, runs: 0, deliveries: 0 });
        assert.deepEqual(
          restsMs.map((ms) => Math.floor(ms / minute)),
          [0, 2, 60],
        );
        assert.deepEqual([Math.ceil(Number(dueMs[0]) / minute), dueMs[1], dueMs[2]], [1, null, 0]);
        assert.equal((await storedJob(tenant, "j"))?.next_run_at, hourly("", now));
      });

      test("the sweep corrects every row, over several pages, and no time that is due", async () => {
        const now = await storeNow(store.system);
        const many = Array.from({ length: 501 }, (_, n) => `many-${String(n).padStart(3, "0")}`);
        const at = { now, next_run_at: hourly("", now) + aheadMs, limit: 0, ops: [] };
        await Promise.all(many.map((name) => writeJob(tenant, undefined, { name, ...job }, at)));
        await writeJob(tenant, undefined, { name: "due", ...job }, { ...at, next_run_at: now - hour });
        await accept(...many);
        await store.system.write([store.system.op(addToWakes, [aheadMs])]);

        const moved = await moveTimesAhead(store.system, hourly);

        const times = await Promise.all(many.map(async (name) => (await storedJob(tenant, name))?.next_run_at));
        assert.deepEqual(new Set(times), new Set([hourly("", now)]));
        assert.equal((await storedJob(tenant, "due"))?.next_run_at, now - hour);
        assert.ok(moved.runs >= many.length, String(moved.runs));
      });

      test("a skipped job gets its next scheduled time, and one without a time keeps none", async () => {
        const now = await storeNow(store.system);
        const at = { now, next_run_at: now - 2 * hour, limit: 0, ops: [] };
        await writeJob(tenant, undefined, { name: "missed", ...job }, at);
        await writeJob(tenant, undefined, { name: "by-hand", ...job, schedule: "" }, { ...at, next_run_at: null });

        await skipMissedTimes(store.system, hourly);

        const times = await Promise.all(["missed", "by-hand"].map((name) => storedJob(tenant, name)));
        assert.deepEqual(
          times.map((row) => row?.next_run_at),
          [hourly("", now), null],
        );
      });
    });
