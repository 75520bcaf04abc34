// Run rows from start to end, on both engines: guards on changes, and the search for abandoned runs.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import { abandonedRuns, interruptedRun } from "../../../storage/tables/abandoned-runs.ts";
import {
  enterHostOps,
  expireHostsOps,
  lapseOthersOp,
  leaveHostOps,
  renewHostOp,
} from "../../../storage/tables/hosts.ts";
import {
  deleteEndedRuns,
  deleteRunsOp,
  endRunOp,
  insertEndedRunOp,
  insertRunOp,
  type RunEnd,
  resumeRunOp,
  runByKey,
  runKey,
  runNumber,
  runsMax,
  suspendLiveRunOp,
  waitingRun,
} from "../../../storage/tables/runs.ts";
import { insertThreadOp, reserveThreadKeys } from "../../../storage/tables/threads.ts";
import { newRun, threadRow } from "../../support/rows.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const end: RunEnd = {
  status: "completed",
  ended_at: 9,
  last_seq: 4,
  stop_reason: "end_turn",
  error: null,
  usage: {
    input: 1,
    output: 2,
    cacheRead: 0,
    cacheWrite: 0,
    totalTokens: 3,
    cost: { input: 0.1, output: 0.2, cacheRead: 0, cacheWrite: 0, total: 0.3 },
  },
};
const spent = { tool_calls: 1, input_tokens: 2, output_tokens: 3, cost_usd: 0.5, usage: null };
const hourMs = 3_600_000;

for (const dialect of dialects)
  describe(`runs on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let count = 0;
    before(async () => {
      ({ store } = await testStore(dialect, atEnd));
    });

    const freshTenant = (): TenantStore => store.tenant(`runs-${++count}`);
    /** A new thread. */
    async function freshThread(tenant: TenantStore): Promise<number> {
      const key = await reserveThreadKeys(store.system, 1);
      await tenant.write([insertThreadOp(tenant, threadRow(key, `t${key}`))]);
      return key;
    }

    test("an ended run keeps its initial fields and has its outcome", async () => {
      const tenant = freshTenant();
      const thread_key = await freshThread(tenant);
      const run = newRun("r1", { parent_run_id: "r0", hops: 2, idempotency_scope: "scope", started_at: 5 });
      const held = { run_key: runKey(thread_key, 3), epoch: 3 };
      const begun = {
        ...run,
        ...held,
        thread_key,
        status: "running",
        ended_at: null,
        first_seq: 2,
        last_seq: null,
        spent: null,
        result: null,
        format: 1,
        a2a_context: null,
        a2a_owner: null,
      };

      await tenant.write([insertRunOp(tenant, run, { thread_key, epoch: 3, first_seq: 2 })]);
      const running = await runByKey(tenant, held.run_key);
      const interrupted = await interruptedRun(tenant, thread_key);
      await tenant.write([endRunOp(tenant, held, end)]);

      assert.deepEqual(running, begun);
      assert.deepEqual(interrupted, {
        run_key: held.run_key,
        run_id: "r1",
        epoch: 3,
        idempotency_scope: "scope",
        durable: false,
        owner: "here:1:0",
        owner_lives: false,
      });
      assert.deepEqual(await runByKey(tenant, held.run_key), {
        ...begun,
        status: "completed",
        ended_at: 9,
        last_seq: 4,
        result: { stop_reason: "end_turn", error: null, usage: end.usage },
      });
      assert.equal(await interruptedRun(tenant, thread_key), undefined);
      assert.equal(await runByKey(freshTenant(), held.run_key), undefined);
      assert.equal(runNumber(held.run_key), 3);
    });

    test("a thread has one open run at a time, also while it waits", async () => {
      const tenant = freshTenant();
      const thread_key = await freshThread(tenant);
      const begin = (epoch: number) =>
        tenant.write([insertRunOp(tenant, newRun(`r${epoch}`), { thread_key, epoch, first_seq: 0 })]);
      const held = (epoch: number) => ({ run_key: runKey(thread_key, epoch), epoch });

      await begin(1);
      await assert.rejects(begin(1), { code: "conflict", details: { subject: "runs_insert" } });
      await assert.rejects(begin(2), { code: "conflict", details: { subject: "runs_insert" } });
      await tenant.write([suspendLiveRunOp(tenant, held(1), spent)]);
      const waiting = await waitingRun(tenant, thread_key);
      await assert.rejects(begin(2), { code: "conflict", details: { subject: "runs_insert" } });
      await tenant.write([endRunOp(tenant, held(1), end)]);
      await begin(2);

      assert.equal(waiting?.run_id, "r1");
      assert.equal(await waitingRun(tenant, thread_key), undefined);
      assert.equal((await interruptedRun(tenant, thread_key))?.run_id, "r2");
    });

    test("a run is changed under its own epoch only, and once", async () => {
      const tenant = freshTenant();
      const thread_key = await freshThread(tenant);
      const run_key = runKey(thread_key, 1);
      await tenant.write([insertRunOp(tenant, newRun("r1"), { thread_key, epoch: 1, first_seq: 0 })]);
      const resume = (epoch: number) =>
        tenant.write([resumeRunOp(tenant, { run_key, epoch }, { owner: "there:2:0", epoch: epoch + 1 })]);
      const refused = (change: Promise<unknown>, subject: string) =>
        assert.rejects(change, { code: "conflict", details: { subject } });

      await refused(resume(1), "run_resume");
      await tenant.write([suspendLiveRunOp(tenant, { run_key, epoch: 1 }, spent)]);
      await refused(tenant.write([suspendLiveRunOp(tenant, { run_key, epoch: 1 }, spent)]), "run_park");
      await resume(1);
      await refused(resume(1), "run_resume");
      await refused(tenant.write([suspendLiveRunOp(tenant, { run_key, epoch: 1 }, spent)]), "run_park");
      await refused(tenant.write([endRunOp(tenant, { run_key, epoch: 1 }, end)]), "run_end");
      const running = await runByKey(tenant, run_key);
      await tenant.write([endRunOp(tenant, { run_key, epoch: 2 }, { ...end, status: "dead", error: "attempts" })]);
      await refused(tenant.write([endRunOp(tenant, { run_key, epoch: 2 }, end)]), "run_end");

      assert.deepEqual(
        [running?.status, running?.owner, running?.epoch, running?.spent],
        ["running", "there:2:0", 2, spent],
      );
      const over = await runByKey(tenant, run_key);
      assert.deepEqual([over?.status, over?.result?.error], ["dead", "attempts"]);
    });

    test("a waiting run can end without a resume", async () => {
      const tenant = freshTenant();
      const thread_key = await freshThread(tenant);
      const held = { run_key: runKey(thread_key, 1), epoch: 1 };
      await tenant.write([insertRunOp(tenant, newRun("r1"), { thread_key, epoch: 1, first_seq: 0 })]);

      await tenant.write([suspendLiveRunOp(tenant, held, spent)]);
      await tenant.write([endRunOp(tenant, held, { ...end, status: "expired" })]);

      assert.equal((await runByKey(tenant, held.run_key))?.status, "expired");
    });

    test("runs without a thread coexist, however many end at once", async () => {
      const tenant = freshTenant();
      const other = freshTenant();
      const keep = (of: TenantStore, id: string) =>
        of.write([insertEndedRunOp(of, newRun(id), { ...end, last_seq: null, ended_at: 77 })]);

      await Promise.all([...Array.from({ length: 20 }, (_, at) => keep(tenant, `s${at}`)), keep(other, "s20")]);

      const kept = await Promise.all(Array.from({ length: 40 }, (_, at) => runByKey(tenant, -1 - at)));
      const mine = kept.filter((run) => run !== undefined);
      assert.deepEqual(
        mine.map(({ run_id }) => run_id).toSorted(),
        Array.from({ length: 20 }, (_, at) => `s${at}`).toSorted(),
      );
      assert.deepEqual(
        [mine[0]?.thread_key, mine[0]?.first_seq, mine[0]?.last_seq, mine[0]?.result?.usage],
        [null, null, null, end.usage],
      );
    });

    test("deleting the runs of a thread keeps those of its neighbours in order", async () => {
      const tenant = freshTenant();
      const key = await reserveThreadKeys(store.system, 3);
      const places = [
        [key, runsMax - 1],
        [key + 1, 0],
        [key + 1, runsMax - 1],
        [key + 2, 0],
      ] as const;
      for (const [thread_key, epoch] of places) {
        await tenant.write([insertRunOp(tenant, newRun("r"), { thread_key, epoch, first_seq: 0 })]);
        await tenant.write([endRunOp(tenant, { run_key: runKey(thread_key, epoch), epoch }, end)]);
      }

      await tenant.write([deleteRunsOp(tenant, key + 1)]);

      const left = await Promise.all(places.map(([of, number]) => runByKey(tenant, runKey(of, number))));
      assert.deepEqual(
        left.map((run) => run !== undefined),
        [true, false, false, true],
      );
    });

    test("runs of hosts without a lease are found in pages, and those of others are not", async () => {
      const tenant = freshTenant();
      const first = await reserveThreadKeys(store.system, 7);
      const owners = ["host-1:1:0", "host_1:1:0", "HOST-1:1:0", "host-10:1:0", "live:1:0", "live1:1:0", "liv:1:0"];
      await store.system.write(enterHostOps(store.system, { id: "live", mode: "cluster", card: null }, hourMs));
      await tenant.write(
        owners.flatMap((owner, at) => [
          insertThreadOp(tenant, threadRow(first + at, `t${at}`)),
          insertRunOp(tenant, newRun(`r${at}`, { owner }), { thread_key: first + at, epoch: 1, first_seq: 0 }),
        ]),
      );
      const held = (at: number) => ({ run_key: runKey(first + at, 1), epoch: 1 });
      await tenant.write([suspendLiveRunOp(tenant, held(6), spent)]);

      const gone = { hostsBut: "host-1" };
      const found = await abandonedRuns(store.system, gone, first - 1, 2);
      const rest = await abandonedRuns(store.system, gone, found.at(-1)?.thread_key as number, 10);
      const ofWorker = await abandonedRuns(store.system, { worker: "host-1:1:0" }, first - 1, 10);
      await store.system.write(leaveHostOps(store.system, "live"));
      const after = await abandonedRuns(store.system, gone, first - 1, 10);

      assert.deepEqual(found[0], { tenant_id: tenant.tenantId, suffix: "t1", thread_key: first + 1 });
      assert.deepEqual(
        [...found, ...rest].map(({ suffix }) => suffix),
        ["t1", "t2", "t3", "t5"],
      );
      assert.deepEqual(
        ofWorker.map(({ suffix }) => suffix),
        ["t0"],
      );
      assert.deepEqual(
        after.map(({ suffix }) => suffix),
        ["t1", "t2", "t3", "t4", "t5"],
      );
      await tenant.write(Array.from({ length: 7 }, (_, at) => endRunOp(tenant, held(at), end)));
      assert.deepEqual(await abandonedRuns(store.system, gone, first - 1, 10), []);
    });

    test("old ended runs are deleted, oldest first, in batches; others stay", async () => {
      const tenant = freshTenant();
      const thread_key = await freshThread(tenant);
      for (let epoch = 1; epoch <= 5; epoch++)
        await tenant.write([
          insertRunOp(tenant, newRun(`r${epoch}`), { thread_key, epoch, first_seq: 0 }),
          ...(epoch < 5
            ? [endRunOp(tenant, { run_key: runKey(thread_key, epoch), epoch }, { ...end, ended_at: -epoch })]
            : []),
        ]);
      const left = async () => {
        const runs = await Promise.all([1, 2, 3, 4, 5].map((epoch) => runByKey(tenant, runKey(thread_key, epoch))));
        return runs.flatMap((run) => run?.run_id ?? []);
      };

      const deleted = await deleteEndedRuns(store.system, -2, 2);
      const firstLeft = await left();
      const more = await deleteEndedRuns(store.system, -2, 2);

      assert.deepEqual([deleted, firstLeft], [2, ["r1", "r2", "r5"]]);
      assert.deepEqual([more, await left()], [1, ["r1", "r5"]]);
    });
  });

for (const dialect of dialects)
  describe(`hosts on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    before(async () => {
      ({ store } = await testStore(dialect, atEnd));
    });
    const write = async (...ops: ReturnType<typeof expireHostsOps>) => (await store.system.write(ops))[0];
    const enter = (id: string, leaseMs: number) =>
      write(...enterHostOps(store.system, { id, mode: "cluster", card: null }, leaseMs));
    const renew = (id: string, leaseMs: number) => write(renewHostOp(store.system, id, leaseMs));

    test("a host whose lease expired by the store's clock is removed once, and for good", async () => {
      await enter("stays", hourMs);
      await enter("goes", 0);
      await enter("renews", 0);
      await renew("renews", hourMs);

      const lapsed = await write(...expireHostsOps(store.system));
      const again = await write(...expireHostsOps(store.system));

      assert.deepEqual([lapsed, again], [[{ id: "goes" }], []]);
      await assert.rejects(renew("goes", hourMs), { code: "conflict", details: { subject: "host_renew" } });
      await renew("stays", hourMs);
    });

    test("a host that entered twice is listed once, with its last lease", async () => {
      await enter("twice", 0);
      await enter("twice", hourMs);

      const lapsed = await write(...expireHostsOps(store.system));

      assert.deepEqual(lapsed, []);
      await renew("twice", hourMs);
    });

    test("the holder of the process lock removes all other hosts", async () => {
      await enter("other", hourMs);
      await enter("holder", hourMs);

      await write(lapseOthersOp(store.system, "holder", "cluster"));

      await renew("holder", hourMs);
      await assert.rejects(renew("other", hourMs), { code: "conflict" });
    });
  });
