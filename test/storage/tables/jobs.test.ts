import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import {
  beginJobRunOps,
  deleteJobRunsOfThreadOp,
  endJobRunOp,
  jobRunsOf,
  openJobRun,
  openJobRuns,
  runsKept,
  tenantsWithOpenJobRuns,
} from "../../../storage/tables/job-runs.ts";
import {
  beginJobOp,
  dueJobs,
  endJobOp,
  hasJobs,
  type JobRow,
  type JobWritten,
  jobsOf,
  removeJob,
  storedJob,
  storeNow,
  takeTimeOp,
  tenantsWithDueJobs,
  writeJob,
} from "../../../storage/tables/jobs.ts";
import { storedBytes } from "../../../storage/tables/stored-bytes.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const owner = { sub: "wanda", scopes: ["jobs:write"], scheme: "api_key", issuer: "" };
const job = (name: string, fields: Partial<JobWritten> = {}): JobWritten => ({
  name,
  schedule: "* * * * *",
  manifest_id: "m",
  payload: { prompt: "Report." },
  enabled: 1,
  owner,
  ...fields,
});
const run = (run_id: string, job_name: string, started_at: number) =>
  ({
    ...{ run_id, job_name, suffix: `job:${job_name}`, requested_by: "cron", started_at },
    caused_by: "schedule",
    asked: { manifest_id: "m", prompt: "Report.", owner },
  }) as const;
const ok = { status: "ok", outcome: "completed", error: "", answer: "Reported." } as const;

for (const dialect of dialects) {
  describe(`jobs on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let count = 0;
    before(async () => {
      ({ store } = await testStore(dialect, atEnd));
    });
    const freshTenant = (): TenantStore => store.tenant(`jobs-${String(++count).padStart(3, "0")}`);
    async function put(tenant: TenantStore, name: string, next_run_at: number | null): Promise<JobRow> {
      await writeJob(tenant, await storedJob(tenant, name), job(name), { now: 5, next_run_at, limit: 0, ops: [] });
      return (await storedJob(tenant, name)) as JobRow;
    }

    test("a due time is taken once, however many ask for it, and never before it is due", async () => {
      const tenant = freshTenant();
      const due = await put(tenant, "due", 10);
      const later = await put(tenant, "later", (await storeNow(store.system)) + 60_000);

      const asked = await Promise.allSettled(
        Array.from({ length: 8 }, (_, at) => tenant.write([takeTimeOp(tenant, due, 1_000 + at)])),
      );
      const early = tenant.write([takeTimeOp(tenant, later, 99)]);

      await assert.rejects(early, { code: "conflict" });
      assert.equal(asked.filter(({ status }) => status === "fulfilled").length, 1);
      assert.equal((await storedJob(tenant, "later"))?.next_run_at, later.next_run_at);
    });

    test("a job has one open run: another firing changes nothing and keeps its time", async () => {
      const tenant = freshTenant();
      const due = await put(tenant, "one", 10);
      const other = await put(tenant, "two", 10);
      await tenant.write([beginJobOp(tenant, "one", 20), ...beginJobRunOps(tenant, run("r1", "one", 20))]);

      const beside = tenant.write([takeTimeOp(tenant, due, 99), ...beginJobRunOps(tenant, run("r2", "one", 21))]);

      await assert.rejects(beside, { code: "conflict" });
      assert.equal((await storedJob(tenant, "one"))?.next_run_at, 10);
      await tenant.write([takeTimeOp(tenant, other, 99), ...beginJobRunOps(tenant, run("r3", "two", 21))]);
      assert.deepEqual(
        (await openJobRuns(tenant, "", 10)).map(({ run_id }) => run_id),
        ["r1", "r3"],
      );
      await tenant.write([
        endJobRunOp(tenant, "r1", ok),
        endJobOp(tenant, "one", { startedAt: 20, status: "ok", error: "" }),
      ]);
      await assert.rejects(tenant.write([endJobRunOp(tenant, "r1", ok)]), { code: "conflict" });
      assert.equal(await openJobRun(tenant, "one"), undefined);
      assert.equal((await storedJob(tenant, "one"))?.last_status, "ok");
    });

    test("the end of an older run is not recorded as that of the newest", async () => {
      const tenant = freshTenant();
      await put(tenant, "one", null);
      await tenant.write([beginJobOp(tenant, "one", 20)]);
      await tenant.write([beginJobOp(tenant, "one", 30)]);

      await tenant.write([endJobOp(tenant, "one", { startedAt: 20, status: "error", error: "old" })]);

      const { last_run_at, last_status, last_error } = (await storedJob(tenant, "one")) as JobRow;
      assert.deepEqual([last_run_at, last_status, last_error], [30, "running", ""]);
      await assert.rejects(tenant.write([beginJobOp(tenant, "gone", 30)]), { code: "conflict" });
    });

    test("tenants with due or running jobs are found in pages", async () => {
      const tenants = [freshTenant(), freshTenant(), freshTenant()];
      for (const tenant of tenants) await put(tenant, "due", 10);
      const [first, second, third] = tenants as [TenantStore, TenantStore, TenantStore];
      await put(second, "due", null);
      await second.write(beginJobRunOps(second, run("r", "due", 20)));
      const from = `${first.tenantId.slice(0, -1)}`;

      const page = await tenantsWithDueJobs(store.system, from, 1);
      const rest = await tenantsWithDueJobs(store.system, first.tenantId, 10);
      const open = await tenantsWithOpenJobRuns(store.system, first.tenantId, 10);

      assert.deepEqual(page.length, 1);
      assert.deepEqual([rest.includes(second.tenantId), rest.includes(third.tenantId)], [false, true]);
      assert.deepEqual([open.includes(second.tenantId), open.includes(third.tenantId)], [true, false]);
      assert.deepEqual(
        (await dueJobs(third, 10)).map(({ name }) => name),
        ["due"],
      );
    });

    test("the newest runs of a job are kept, and its open run always", async () => {
      const tenant = freshTenant();
      await put(tenant, "one", null);
      for (let at = 1; at <= runsKept + 5; at++) {
        await tenant.write(beginJobRunOps(tenant, run(`r${at}`, "one", at)));
        await tenant.write([endJobRunOp(tenant, `r${at}`, ok)]);
      }

      const kept = await jobRunsOf(tenant, "one", 1_000);

      assert.deepEqual([kept.length, kept[0]?.run_id, kept.at(-1)?.run_id], [runsKept, `r${runsKept + 5}`, "r6"]);
      await tenant.write(beginJobRunOps(tenant, run("open", "one", 9_999)));
      await tenant.write([deleteJobRunsOfThreadOp(tenant, "job:one")]);
      assert.deepEqual(
        (await jobRunsOf(tenant, "one", 10)).map(({ run_id }) => run_id),
        ["open"],
      );
    });

    test("a replaced job counts with its new size, and a deleted one frees its bytes", async () => {
      const tenant = freshTenant();
      const { bytes } = await put(tenant, "one", null);
      const larger = job("one", { payload: { prompt: "x".repeat(1_000) } });
      const before = (await storedJob(tenant, "one")) as JobRow;

      const refused = writeJob(tenant, before, larger, { now: 6, next_run_at: 7, limit: bytes + 500, ops: [] });
      await assert.rejects(refused, { code: "storage_quota_exceeded" });
      const unchanged = await storedJob(tenant, "one");
      await writeJob(tenant, before, larger, { now: 6, next_run_at: 7, limit: 0, ops: [] });
      const written = (await storedJob(tenant, "one")) as JobRow;

      assert.deepEqual(unchanged, before);
      assert.deepEqual(written, { ...before, ...larger, next_run_at: 7, bytes: written.bytes });
      assert.equal(await storedBytes(tenant, "jobs"), written.bytes);
      assert.deepEqual([await hasJobs(tenant, 1), await hasJobs(tenant, 2)], [true, false]);
      await removeJob(tenant, written, []);
      assert.deepEqual([await jobsOf(tenant, 10), await storedBytes(tenant, "all")], [[], 0]);
    });

    test("a change based on an outdated job does not change the stored bytes", async () => {
      const tenant = freshTenant();
      const before = await put(tenant, "one", null);
      const larger = job("one", { payload: { prompt: "x".repeat(1_000) } });
      const options = { now: 6, next_run_at: 7, limit: 0, ops: [] };
      await writeJob(tenant, before, larger, options);

      await assert.rejects(writeJob(tenant, before, larger, options), { code: "conflict" });
      await assert.rejects(writeJob(tenant, undefined, larger, options), { code: "conflict" });
      await assert.rejects(removeJob(tenant, before, []), { code: "conflict" });

      const { bytes } = (await storedJob(tenant, "one")) as JobRow;
      assert.deepEqual([await storedBytes(tenant, "jobs"), await storedBytes(tenant, "all")], [bytes, bytes]);
    });
  });
}
