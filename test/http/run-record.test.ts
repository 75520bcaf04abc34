import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { durableRun, recordOf, standingOf } from "../../http/run-record.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { suspendRunOp } from "../../storage/tables/abandoned-runs.ts";
import {
  acceptDurableOp,
  claimDurableOp,
  endDurableOp,
  loseDurableOp,
  putOffDurableOp,
} from "../../storage/tables/durable-rows.ts";
import { beginRunOp, endRunOp, runBegun } from "../../storage/tables/runs.ts";
import { insertThreadOp, reserveThreadKeys } from "../../storage/tables/threads.ts";
import { newRun, threadRow } from "../support/rows.ts";
import { testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

/** Does some work right after the first read, and counts the reads. */
function behindRead(store: TenantStore, work: () => Promise<void>): { store: TenantStore; reads: () => number } {
  let reads = 0;
  const read: TenantStore["read"] = async (statement, ...params) => {
    const rows = await store.read(statement, ...params);
    if (++reads === 1) await work();
    return rows;
  };
  return { store: { ...store, read }, reads: () => reads };
}

async function acceptedRun(t: TestContext) {
  const { store } = await testStore("sqlite", cleanup(t));
  const tenant = store.tenant("acme");
  const thread_key = await reserveThreadKeys(store.system, 1);
  const run = runBegun(newRun("r1", {}), { thread_key, epoch: 1, first_seq: 0 });
  await tenant.write([insertThreadOp(tenant, threadRow(thread_key, "t"))]);
  await tenant.write([beginRunOp(tenant, run), acceptDurableOp(tenant, run, "t", 1)]);
  return { tenant, run };
}

test("DUR-003 a run that ends while its record is read shows as running, then with its answer", async (t) => {
  const { tenant, run } = await acceptedRun(t);
  const end = async (): Promise<void> => {
    const ended = { status: "completed", ended_at: 9, last_seq: 2, stop_reason: "end_turn", error: null } as const;
    await tenant.write([
      endRunOp(tenant, run, { ...ended, usage: null }),
      endDurableOp(tenant, run.run_id, { final: "Here it is.", error: null, expires_at: 10 }),
    ]);
  };

  const ending = behindRead(tenant, end);
  const records = [await durableRun(ending.store, run.run_id), await durableRun(ending.store, run.run_id)];

  const told = records.map((found) => {
    assert.ok(found);
    const { status, final } = recordOf(found);
    return [status, final?.content];
  });
  assert.deepEqual(told, [
    ["running", undefined],
    ["completed", "Here it is."],
  ]);
  assert.equal(ending.reads(), 2, "a record is of one moment when it is read at once");
});

test("DUR-013 a record that is read while a step of its run fails then shows the retry time", async (t) => {
  const { tenant, run } = await acceptedRun(t);
  await tenant.write([claimDurableOp(tenant, run.run_id)]);
  const { store } = behindRead(tenant, async () => {
    await tenant.write([suspendRunOp(tenant, run), putOffDurableOp(tenant, run.run_id, 5_000, true)]);
  });

  const before = await durableRun(store, run.run_id);
  const found = await durableRun(store, run.run_id);

  assert.deepEqual([before?.run.status, before?.durable.wake_at], ["running", null]);
  assert.ok(found);
  const { waiting_on } = await standingOf(tenant, found);
  assert.deepEqual([found.run.status, waiting_on?.kind], ["waiting", "retry"]);
});

test("DUR-013 a run that lost its step and backs off shows when it will resume", async (t) => {
  const { tenant, run } = await acceptedRun(t);
  await tenant.write([claimDurableOp(tenant, run.run_id)]);
  await tenant.write([suspendRunOp(tenant, run), loseDurableOp(tenant, run.run_id, 5_000)]);

  const found = await durableRun(tenant, run.run_id);

  assert.ok(found);
  const { waiting_on } = await standingOf(tenant, found);
  assert.deepEqual(waiting_on, { kind: "retry", id: run.run_id, until: found.durable.wake_at });
});

test("a record belongs to its own run and its own tenant", async (t) => {
  const { store } = await testStore("sqlite", cleanup(t));
  const first_key = await reserveThreadKeys(store.system, 3);
  const tenants = ["acme", "acme", "umbrella"].map((name) => store.tenant(name));
  for (const [at, tenant] of tenants.entries()) {
    const thread_key = first_key + at;
    // Runs of two tenants may have the same id.
    const manifest = `m${at}`;
    const run = runBegun(newRun(`r${at % 2}`, { manifest }), { thread_key, epoch: 1, first_seq: 0 });
    await tenant.write([insertThreadOp(tenant, threadRow(thread_key, `t${at}`))]);
    await tenant.write([beginRunOp(tenant, run), acceptDurableOp(tenant, run, `t${at}`, 1)]);
  }
  const [acme, , umbrella] = tenants as [TenantStore, TenantStore, TenantStore];
  const first = await durableRun(acme, "r0");
  assert.ok(first);
  const ended = { status: "completed", ended_at: 9, last_seq: 2, stop_reason: "end_turn", error: null } as const;
  await acme.write([
    endRunOp(acme, first.run, { ...ended, usage: null }),
    endDurableOp(acme, "r0", { final: "Done.", error: null, expires_at: 10 }),
  ]);

  const found = [await durableRun(acme, "r0"), await durableRun(acme, "r1"), await durableRun(umbrella, "r0")];

  const told = found.map((one) => one && [one.run.manifest, one.durable.suffix, one.run.status, one.run.ended_at]);
  assert.deepEqual(told, [
    ["m0", "t0", "completed", 9],
    ["m1", "t1", "running", null],
    ["m2", "t2", "running", null],
  ]);
  assert.equal(await durableRun(umbrella, "r1"), null);
});
