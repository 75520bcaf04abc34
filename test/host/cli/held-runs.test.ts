// Open durable runs of a restored backup: they are held until an operator releases them, and jobs do not make up for
// missed times.
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, test } from "node:test";
import Database from "better-sqlite3";
import { systemSql } from "../../../storage/store/statements.ts";
import { acceptDurableOp, durableRowById, isResting, whetherStopped } from "../../../storage/tables/durable-rows.ts";
import { dueDurables } from "../../../storage/tables/durable-sweeps.ts";
import { carryOutRestore, releaseHeld } from "../../../storage/tables/held-runs.ts";
import { storedJob, storeNow, writeJob } from "../../../storage/tables/jobs.ts";
import { beginRunOp, runBegun } from "../../../storage/tables/runs.ts";
import { eventually } from "../../support/eventually.ts";
import { newRun } from "../../support/rows.ts";
import { apiKeys, type ProcessServer, startServerProcess } from "../../support/server.ts";
import { gateDialects, testStore } from "../../support/stores.ts";
import { cleanup, tempDir } from "../../support/temp.ts";
import { said } from "./chat/talking.ts";

const { env: auth, keys } = apiKeys({
  alice: { scopes: ["admin"] },
  eve: { tenant_id: "globex", scopes: ["runs:write"] },
});
const hour = 3_600_000;

describe("a backup with an open durable run", () => {
  const atEnd = cleanup();
  const place = (): string => join(tempDir(atEnd), "place");
  const svc = (argv: readonly string[], env: Record<string, string>) => said(argv, { atEnd, env });

  test("DUR-008 holds its runs after a restore until a release; --resume holds none", async () => {
    const server = await startServerProcess({ atEnd, env: auth });
    const spec = {
      tools: ["calculator"],
      execution: { mode: "durable" },
      approvals: [{ id: "sums", tools: ["calculator"] }],
    };
    const body = { manifest: { metadata: { name: "careful" }, spec } };
    assert.ok((await server.request("PUT", "/manifests/careful", { body, key: keys.alice })).status < 300);
    const turn = { manifest: "careful", messages: [{ role: "user", content: "What is 6 * 7?" }] };
    const token = (await server.post("/chat", turn, { key: keys.alice })).json.resume_token as string;
    const job = { schedule: "0 * * * *", manifest_id: "quick", payload: { prompt: "Hi." }, enabled: true };
    assert.ok((await server.request("PUT", "/jobs/hourly", { body: job, key: keys.alice })).status < 300);
    const at = async (of: ProcessServer) => (await of.get(`/runs/${token}`, { key: keys.alice })).json;
    const approval = await eventually("a request", async () => (await at(server)).waiting_on?.id as string | undefined);
    const [backup, held, resumed] = [place(), place(), place()];
    const saved = await svc(["backup", backup], { SVC_DATA_DIR: server.dataDir });
    assert.equal(saved.code, 0, saved.stderr);

    const restored = await svc(["restore", backup, "--json"], { SVC_DATA_DIR: held });
    const goesOn = await svc(["restore", backup, "--resume"], { SVC_DATA_DIR: resumed });
    const db = new Database(join(held, "svc.db"));
    db.prepare("UPDATE jobs SET next_run_at = ?").run(Date.now() - 2 * hour);
    db.close();
    const second = await startServerProcess({ atEnd, env: auth, dataDir: held });
    const decide = (of: ProcessServer) =>
      of.post(`/approvals/${approval}/decide`, { decision: "approved" }, { key: keys.alice });
    assert.equal((await decide(second)).status, 200);
    for (const task of ["due_waits", "fiber_scheduler", "run_scheduled_jobs"])
      assert.equal((await second.post(`/tasks/${task}/run`, {}, { key: keys.alice })).status, 200);
    const waiting = await at(second);
    const retried = await second.post(`/runs/${token}/retry`, {}, { key: keys.alice });
    const foreign = await second.post("/runs/release", {}, { key: keys.eve });
    const foreignToken = await second.post("/runs/release", { token }, { key: keys.eve });
    const longToken = await second.post("/runs/release", { token: "f".repeat(65) }, { key: keys.alice });
    const { items: jobs } = (await second.get("/jobs", { key: keys.alice })).json;
    const caller = { SVC_KEY: keys.alice, SVC_DATA_DIR: held };
    const released = await svc(["runs", "release", token, "--url", second.url], caller);
    const again = await svc(["runs", "release", "--all", "--json", "--url", second.url], caller);
    const ended = await eventually("its end", async () => {
      const run = await at(second);
      return run.status === "completed" ? run : undefined;
    });
    const third = await startServerProcess({ atEnd, env: auth, dataDir: resumed });
    await decide(third);
    const other = await eventually("the end of the one that was resumed", async () => {
      const run = await at(third);
      return run.status === "completed" ? run : undefined;
    });

    assert.equal(JSON.parse(restored.stdout).held, 1, restored.stdout);
    assert.match(goesOn.stdout, /\n1 durable run is open and will resume when a server starts\.\n$/);
    assert.deepEqual([waiting.status, waiting.waiting_on], ["waiting", { kind: "release", id: token, until: null }]);
    assert.deepEqual([retried.status, retried.json.retried], [200, false]);
    assert.deepEqual([foreign.status, foreign.json.released], [200, 0]);
    for (const unknown of [foreignToken, longToken])
      assert.deepEqual([unknown.status, unknown.json.error], [404, "run_not_found"]);
    const [{ next_run_at, last_status }] = jobs;
    assert.ok(next_run_at > Date.now(), "a time that was missed is not made up for");
    assert.equal(last_status, "");
    assert.equal(released.stdout, `${token}: released\n1 released.\n`);
    assert.deepEqual(JSON.parse(again.stdout), { ok: true, released: 0, run_ids: [] });
    assert.match(ended.final.content, /42/);
    assert.match(other.final.content, /42/);
  });
});

const age = systemSql("test_fibers_age", "UPDATE fibers SET wake_at = wake_at - ?, expires_at = expires_at - ?");
const mark = systemSql("test_restored", "INSERT INTO counters (name, value) VALUES ('restored', 1)");

for (const dialect of gateDialects)
  describe(`held runs on ${dialect}`, async () => {
    const { store } = await testStore(dialect, cleanup());
    const tenant = store.tenant("acme");

    test("DUR-008 a held run does not expire, and is released together with its tasks", async () => {
      const now = await storeNow(store.system);
      const run = (id: string, epoch: number, manifest: string, parent_run_id: string | null = null) =>
        runBegun(
          newRun(id, {
            started_at: now,
            manifest,
            parent_run_id,
            asked: { ...newRun(id).asked, durable: { ttl_ms: hour } },
          }),
          { thread_key: 900 + epoch, epoch, first_seq: 0 },
          "accepted",
        );
      const rows = [run("top", 1, "a"), run("task", 2, "b", "top"), run("below", 3, "c", "task"), run("other", 4, "b")];
      await tenant.write(rows.flatMap((row) => [beginRunOp(tenant, row), acceptDurableOp(tenant, row, "t", now)]));
      const job = { name: "j", schedule: "0 * * * *", manifest_id: "m", payload: {}, enabled: 1 };
      const owner = { sub: "wanda", scopes: [], scheme: "none", issuer: "" };
      await writeJob(tenant, undefined, { ...job, owner }, { now, next_run_at: now - hour, limit: 0, ops: [] });
      await store.system.write([store.system.op(age, [48 * hour, 48 * hour]), store.system.op(mark, [])]);
      const due = async () =>
        (await dueDurables(store.system, { wake_at: -1, run_id: "" }, 9)).map(({ run_id }) => run_id);

      const held = await carryOutRestore(store, (_schedule, after) => after + hour);
      const twice = await carryOutRestore(store, (_schedule, after) => after + hour);
      const stopped = [await due(), await whetherStopped(tenant, "top"), await isResting(tenant, "top")];
      const byManifest = await releaseHeld(tenant, { token: null, manifest: "b" });
      const whileHeld = await whetherStopped(tenant, "task");
      const byTask = await releaseHeld(tenant, { token: "below", manifest: null });

      assert.deepEqual([held, twice], [4, null]);
      assert.deepEqual(stopped, [[], "held", true]);
      assert.deepEqual(byManifest, ["other"], "a task goes on with the run above it alone");
      assert.equal(whileHeld, "held");
      assert.deepEqual(byTask.toSorted(), ["below", "task", "top"]);
      assert.deepEqual((await due()).toSorted(), ["below", "other", "task", "top"]);
      assert.deepEqual(await Promise.all(rows.map(({ run_id }) => whetherStopped(tenant, run_id))), [
        null,
        null,
        null,
        null,
      ]);
      assert.ok(((await durableRowById(tenant, "top"))?.expires_at ?? 0) >= now + hour - 1_000, "its time begins anew");
      assert.ok(((await storedJob(tenant, "j"))?.next_run_at ?? 0) > now);
    });
  });
