// A store whose clock was set back: what is to be tried again at a time, as rows that were written while it stood ahead.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { systemSql } from "../../../storage/store/statements.ts";
import { noteClock } from "../../../storage/tables/clock-steps.ts";
import { claimDeliveries, nextDueMs, outboxOps, putOffDeliveryOp } from "../../../storage/tables/deliveries.ts";
import { acceptFiberOp, dueFibers, fiberById, putOffFiberOp } from "../../../storage/tables/fibers.ts";
import { storedJob, storeNow, writeJob } from "../../../storage/tables/jobs.ts";
import { runBegun } from "../../../storage/tables/runs.ts";
import { newRun } from "../../support/rows.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const minute = 60_000;
const hour = 60 * minute;
const setSeen = systemSql(
  "test_clock_seen",
  "UPDATE counters SET value = :now + CAST(? AS BIGINT) WHERE name = 'clock'",
);
const addToWakes = systemSql("test_wakes_later", "UPDATE fibers SET wake_at = wake_at + CAST(? AS BIGINT)");
const addToDue = systemSql("test_due_later", "UPDATE deliveries SET due_at = due_at + CAST(? AS BIGINT)");
const addToJobs = systemSql("test_jobs_later", "UPDATE jobs SET next_run_at = next_run_at + CAST(? AS BIGINT)");
const owner = { sub: "wanda", scopes: [], scheme: "none", issuer: "" };
/** The next whole hour. */
const hourly = (_schedule: string, after: number): number => (Math.floor(after / hour) + 1) * hour;

for (const dialect of dialects)
  for (const backMs of [hour, 24 * hour])
    describe(`a clock on ${dialect} that is set back by ${backMs / hour} hours`, async () => {
      const { store } = await testStore(dialect, cleanup());
      const tenant = store.tenant("acme");

      test("keeps no retry and no job waiting for that long, and moves nothing twice", async () => {
        const now = await storeNow(store.system);
        const rows = ["ready", "failed"].map((id, epoch) =>
          runBegun(newRun(id, { started_at: now }), { thread_key: 1, epoch, first_seq: 0 }, "accepted"),
        );
        await tenant.write(rows.map((row) => acceptFiberOp(tenant, row, "t", now)));
        await tenant.write([putOffFiberOp(tenant, "failed", 10 * minute, true)]);
        await tenant.write(
          outboxOps(tenant, { source: "r", type: "run.completed", body: "{}", endpoints: ["ops", "busy"] }),
        );
        const [claimed] = await claimDeliveries(tenant, "ops", { owner: "o", forMs: minute, limit: 1 });
        if (claimed) await tenant.write([putOffDeliveryOp(tenant, claimed, 10 * minute)]);
        await claimDeliveries(tenant, "busy", { owner: "o", forMs: minute, limit: 1 });
        const job = { name: "j", schedule: "0 * * * *", manifest_id: "m", payload: {}, enabled: 1, owner };
        const at = { now, next_run_at: hourly("", now), limit: 0, ops: [] };
        await writeJob(tenant, undefined, job, at);
        const first = await noteClock(store.system, hourly);
        await store.system.write([
          store.system.op(setSeen, [backMs]),
          ...[addToWakes, addToDue, addToJobs].map((statement) => store.system.op(statement, [backMs])),
        ]);
        const stuck = [await dueFibers(store.system, { wake_at: -1, run_id: "" }, 9), await nextDueMs(tenant, "ops")];

        const back = await noteClock(store.system, hourly);
        const again = await noteClock(store.system, hourly);

        const due = await dueFibers(store.system, { wake_at: -1, run_id: "" }, 9);
        const failed = await fiberById(tenant, "failed");
        const dueMs = (await nextDueMs(tenant, "ops")) ?? 0;
        assert.deepEqual([stuck[0], Number(stuck[1]) > backMs], [[], true]);
        assert.deepEqual([first, again], [0, 0]);
        assert.ok(back > backMs - minute && back <= backMs, String(back));
        assert.deepEqual(
          due.map(({ run_id }) => run_id),
          ["ready"],
        );
        // As long as before, but for the time between two looks at the clock.
        for (const ms of [Number(failed?.wake_at) - now, dueMs])
          assert.ok(ms > 9 * minute && ms < 12 * minute, String(ms));
        assert.equal((await storedJob(tenant, "j"))?.next_run_at, at.next_run_at);
        assert.equal(await nextDueMs(tenant, "busy"), null, "somebody sends it");
      });

      test("takes from nobody what was claimed since: it is sent once", async () => {
        await noteClock(store.system, hourly);
        await tenant.write(
          outboxOps(tenant, { source: "s", type: "run.completed", body: "{}", endpoints: ["claimed"] }),
        );
        await store.system.write([store.system.op(setSeen, [backMs])]);
        // The clock stands where it was set back to, and nobody has noted that yet.
        const first = await claimDeliveries(tenant, "claimed", { owner: "o", forMs: minute, limit: 1 });

        const back = await noteClock(store.system, hourly);

        const second = await claimDeliveries(tenant, "claimed", { owner: "p", forMs: minute, limit: 1 });
        assert.ok(back > backMs - minute, String(back));
        assert.deepEqual([first.length, second], [1, []]);
      });

      test("is noted by one of two processes that see it at once, so that nothing is moved twice", async () => {
        await noteClock(store.system, hourly);
        const now = await storeNow(store.system);
        const row = runBegun(newRun("far", { started_at: now }), { thread_key: 2, epoch: 0, first_seq: 0 }, "accepted");
        await tenant.write([acceptFiberOp(tenant, row, "t", now)]);
        await tenant.write([putOffFiberOp(tenant, "far", 3 * backMs, true)]);
        await store.system.write([store.system.op(setSeen, [backMs])]);

        const backs = await Promise.all([noteClock(store.system, hourly), noteClock(store.system, hourly)]);

        const far = await fiberById(tenant, "far");
        assert.equal(backs.filter((back) => back > 0).length, 1, String(backs));
        const restMs = Number(far?.wake_at) - now;
        assert.ok(restMs > 2 * backMs - minute && restMs < 2 * backMs + minute, String(restMs));
      });

      test("moves every job, more of them than are read at once", async () => {
        const now = await storeNow(store.system);
        const many = Array.from({ length: 501 }, (_, n) => `many-${String(n).padStart(3, "0")}`);
        const at = { now, next_run_at: hourly("", now) + backMs, limit: 0, ops: [] };
        const job = { schedule: "0 * * * *", manifest_id: "m", payload: {}, enabled: 1, owner };
        await Promise.all(many.map((name) => writeJob(tenant, undefined, { name, ...job }, at)));
        await store.system.write([store.system.op(setSeen, [backMs])]);

        await noteClock(store.system, hourly);

        const moved = await Promise.all(many.map(async (name) => (await storedJob(tenant, name))?.next_run_at));
        assert.deepEqual(new Set(moved), new Set([hourly("", now)]));
      });

      test("is not taken for set back by what passes between two statements", async () => {
        await noteClock(store.system, hourly);
        await store.system.write([store.system.op(setSeen, [900])]);

        assert.equal(await noteClock(store.system, hourly), 0);
      });
    });
