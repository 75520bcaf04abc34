// Retention periods by settings.
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { pino } from "pino";
import { newStep } from "../../actors/workflow/step-state.ts";
import { Bus } from "../../bus/bus.ts";
import { systemEnv } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { nodeId } from "../../bus/protocol/node-id.ts";
import { loadSettings, type Settings } from "../../governance/settings/settings.ts";
import { deleteByRetention, eraseOldLogs } from "../../host/retention.ts";
import { dropOldRevisions, eraseOldWorkflowRuns } from "../../host/workflow-retention.ts";
import { auditPage, insertAuditOp } from "../../storage/tables/audit.ts";
import { acceptDurableOp, durableRowById, endDurableOp } from "../../storage/tables/durable-rows.ts";
import { deleteEndedDurables } from "../../storage/tables/durable-sweeps.ts";
import { noteRetentionOp } from "../../storage/tables/manifest-retention.ts";
import { beginRunOp, endRunOp, runBegun } from "../../storage/tables/runs.ts";
import { insertThreadOp, threadBySuffix } from "../../storage/tables/threads.ts";
import {
  beginWorkflowRunOps,
  stepsOfRun,
  type WorkflowRunRow,
  workflowRunById,
} from "../../storage/tables/workflow-runs.ts";
import { removeWorkflow, saveWorkflow, workflowRevision } from "../../storage/tables/workflows.ts";
import { newRun, threadRow } from "../support/rows.ts";
import { testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

const dayMs = 86_400_000;

/** A store with a recording owner of its conversations; ids that end in `bad` cannot be deleted. */
async function owned(t: TestContext) {
  const { store } = await testStore("sqlite", cleanup(t));
  const startedAt = Date.now();
  const env = { ...systemEnv(), now: () => startedAt };
  const node = nodeId("here", 0);
  const asked: unknown[] = [];
  const told: unknown[] = [];
  const manifests: Record<string, unknown> = {};
  const bus: Bus = new Bus({
    ...{ env, node, incarnation: 0, actorNodes: [node] },
    deliver(delivery) {
      asked.push([delivery.kind, delivery.type, delivery.key, delivery.body]);
      if (delivery.type === "get") bus.reply(delivery, manifests[(delivery.body as { name: string }).name]);
      else if (delivery.key.endsWith("bad")) bus.refuse(delivery, new SvcError("internal_error"));
      else bus.reply(delivery, { deleted: true });
    },
  });
  const log = pino({ level: "warn" }, { write: (line) => told.push(JSON.parse(line).thread) });
  const row = (id: string, ts: number) => ({
    ...{ id, ts, event_type: "x", manifest_id: "m", principal_subj: "p", status: "ok", payload: "{}" },
  });
  const sweep = (of: Record<string, string>) => {
    const settings = loadSettings({
      ...{ SVC_AUDIT_RETENTION_DAYS: "0", SVC_USAGE_RETENTION_DAYS: "0", SVC_ARTIFACT_RETENTION_DAYS: "0" },
      ...{ SVC_AUDIT_KEY: "k".repeat(32), ...of },
    });
    return deleteByRetention({ store, bus, env, log, settings });
  };
  const acme = store.tenant("acme");
  const rows = async () => (await auditPage(acme, {}, null, 10)).rows.map(({ id }) => id);
  return { store, bus, env, log, acme, asked, told, row, sweep, rows, manifests };
}

test("TASK-012 rows kept for ever stay, others are deleted once they are older", async (t) => {
  const { env, acme, asked, row, sweep, rows } = await owned(t);
  await acme.write([
    insertAuditOp(acme, row("a", env.now() - 11 * dayMs)),
    insertAuditOp(acme, row("b", env.now() - 9 * dayMs)),
    insertThreadOp(acme, threadRow(1, "t", { updated_at: env.now() - 11 * dayMs })),
  ]);

  const nothing = await sweep({});
  const before = await rows();
  const something = await sweep({ SVC_AUDIT_RETENTION_DAYS: "10", SVC_SESSION_RETENTION_DAYS: "10" });

  assert.deepEqual([nothing, before, something], [{}, ["b", "a"], { conversations: 1, audit: 1 }]);
  assert.deepEqual(await rows(), ["b"]);
  const idle_since = env.now() - 10 * dayMs;
  assert.deepEqual(asked, [["thread", "erase", "acme:t", { idle_since }]]);
  assert.ok(await threadBySuffix(acme, "t"), "the owner of a conversation deletes it, and nobody else");
});

test("TASK-012 a thread that cannot be deleted is logged and blocks no later one", async (t) => {
  const { acme, asked, told, row, sweep, rows } = await owned(t);
  await acme.write([
    insertAuditOp(acme, row("a", 1)),
    ...["bad", ...Array.from({ length: 14 }, (_, at) => `t${at}`)].map((suffix, at) =>
      insertThreadOp(acme, threadRow(1 + at, suffix, { updated_at: 1 + at })),
    ),
  ]);

  const deleted = await sweep({ SVC_AUDIT_RETENTION_DAYS: "10", SVC_SESSION_RETENTION_DAYS: "10" });

  assert.deepEqual(deleted, { conversations: 14, audit: 1 });
  assert.deepEqual([asked.length, told, await rows()], [15, ["acme:bad"], []]);
});

test("a run's undeletable log is reported, blocks no later one, and is found again", async (t) => {
  const { store, bus, log, acme, asked, told } = await owned(t);
  const suffixes = ["fiber:bad", ...Array.from({ length: 54 }, (_, at) => `fiber:r${at}`)];
  const end = { final: null, error: null, expires_at: 1 };
  for (const [at, suffix] of suffixes.entries()) {
    const run = runBegun(newRun(`run-${at}`), { thread_key: 1 + at, epoch: 0, first_seq: 0 });
    await acme.write([
      ...(suffix === "fiber:bad" ? [insertThreadOp(acme, threadRow(1 + at, suffix, { updated_at: 0 }))] : []),
      beginRunOp(acme, run),
      acceptDurableOp(acme, run, suffix, 1),
      endDurableOp(acme, run.run_id, end),
    ]);
  }
  const until = Date.now() + dayMs;

  await eraseOldLogs({ store, bus, log }, until);
  const first = [asked.length, told.length];
  const rows = await deleteEndedDurables(store.system, until, 100);
  await eraseOldLogs({ store, bus, log }, until);

  assert.deepEqual(first, [55, 1]);
  assert.equal(rows, 54);
  assert.ok(await durableRowById(acme, "run-0"));
  assert.deepEqual(asked.slice(55), [["thread", "erase", "acme:fiber:bad", {}]]);
});

test("retention_days of a manifest deletes its idle threads and ended runs alone", async (t) => {
  const { env, acme, asked, sweep, manifests } = await owned(t);
  const old = env.now() - 3 * dayMs;
  const governed = (retention_days: number | null) => ({
    manifest: JSON.stringify({ spec: { governance: { retention_days } } }),
  });
  manifests.brief = governed(2);
  manifests.changed = governed(null);
  const ended = (id: string, thread_key: number, manifest: string) => {
    const run = runBegun(newRun(id, { manifest }), { thread_key, epoch: 0, first_seq: 0 });
    const end = { status: "completed", stop_reason: null, error: null, usage: null } as const;
    return [beginRunOp(acme, run), endRunOp(acme, run, { ...end, ended_at: old, last_seq: 0 })];
  };
  await acme.write([
    ...["brief", "changed"].map((name) => noteRetentionOp(acme, name, old)),
    insertThreadOp(acme, threadRow(1, "old", { updated_at: old, manifest: "brief" })),
    insertThreadOp(acme, threadRow(2, "new", { updated_at: env.now(), manifest: "brief" })),
    insertThreadOp(acme, threadRow(3, "changed", { updated_at: old, manifest: "changed" })),
    insertThreadOp(acme, threadRow(4, "other", { updated_at: old, manifest: "other" })),
    ...ended("run-1", 2, "brief"),
    ...ended("run-2", 4, "other"),
  ]);

  const deleted = await sweep({});
  const again = await sweep({});

  const named = (type: string) => asked.filter((one) => (one as string[])[1] === type);
  assert.deepEqual(deleted, { of_manifests: 2 });
  assert.deepEqual(again, { of_manifests: 1 });
  assert.deepEqual(
    named("erase").map((one) => (one as string[])[2]),
    ["acme:old", "acme:old"],
  );
  assert.deepEqual(
    named("get").map((one) => (one as { name: string }[])[3]?.name),
    ["brief", "changed", "brief"],
  );
});

test("runs of workflows are deleted with their threads, and then the revisions that no run needs", async (t) => {
  const { store, bus, log, acme, asked, told } = await owned(t);
  const saver = { sub: "ann", scopes: [], scheme: "none", issuer: "" };
  const workflow = { id: "flow", name: "", description: "", definition: "{}", saver };
  const save = { now: 1, limit: 0, pinned: [], ops: [] };
  let row = await saveWorkflow(acme, undefined, workflow, save);
  while (row.revision < 4) row = await saveWorkflow(acme, row, workflow, save);
  const runOf = (id: string, revision: number, finished_at: number | null): WorkflowRunRow => ({
    ...{ id, workflow_id: "flow", revision, status: "succeeded", inputs: "{}", taint: [], outputs: null, error: null },
    ...{ version: 1, starter: saver, cause: "request", seed: "s", cost_usd: 0, ts: 1, finished_at, wake_at: null },
  });
  const worked = (id: string, step: string, item?: number) => ({ ...newStep(id, step, item), child_run_id: "child" });
  const steps = (id: string) => [worked(id, "a"), newStep(id, "b"), worked(id, "m", 0), worked(id, "m", 1)];
  await acme.write([
    ...beginWorkflowRunOps(acme, runOf("old", 1, 5), steps("old")),
    ...beginWorkflowRunOps(acme, runOf("stuck", 2, 6), [worked("stuck", "bad")]),
    ...beginWorkflowRunOps(acme, runOf("young", 3, 50), steps("young")),
    ...beginWorkflowRunOps(acme, runOf("open", 3, null), steps("open")),
  ]);
  await removeWorkflow(acme, row, { now: 9, pinned: [4], ops: [] });
  const trigger = { tenant_id: "acme", workflow: "flow", revision: 4 };
  const settings = { triggers: [trigger] } as unknown as Settings;
  const revisions = async () => {
    const found = await Promise.all([1, 2, 3, 4].map((revision) => workflowRevision(acme, "flow", revision)));
    return found.flatMap((one) => (one === undefined ? [] : [one.revision]));
  };
  const before = await revisions();

  await eraseOldWorkflowRuns({ store, bus, log }, 10);
  await dropOldRevisions({ store, bus, log, settings });

  const runs = await Promise.all(["old", "stuck", "young", "open"].map((id) => workflowRunById(acme, id)));
  assert.deepEqual(before, [1, 2, 3, 4]);
  assert.deepEqual(
    runs.map((run) => run?.id),
    [undefined, "stuck", "young", "open"],
  );
  assert.deepEqual(
    asked.map((one) => (one as string[])[2]),
    ["acme:workflow:old:a", "acme:workflow:old:m:0", "acme:workflow:old:m:1", "acme:workflow:stuck:bad"],
  );
  assert.deepEqual(told, ["acme:workflow:stuck:bad"]);
  assert.deepEqual(await stepsOfRun(acme, "old"), []);
  assert.deepEqual(await revisions(), [2, 3, 4]);
});
