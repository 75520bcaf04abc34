// A run of a workflow with every kind of step, whose process dies after each batch that advances it, and in test:long after each batch of the runs
// of its steps too. The next process continues the run, begins no step again, and repeats a call of effect `once` only by a person's decision
// (decision 91).
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { defineTool } from "../../../actors/tools/tool.ts";
import { lookAtWorkflows } from "../../../actors/workflow/due-workflows.ts";
import { builtInKinds } from "../../../actors/workflow/kinds/built-in.ts";
import { durableAddress, runAddress, threadAddress, workflowAddress, workflowSuffix } from "../../../bus/address.ts";
import { systemEnv } from "../../../bus/env.ts";
import { toJsonText } from "../../../bus/protocol/json-text.ts";
import { Type } from "../../../bus/type.ts";
import type { Store, TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { approvalPage, type Decision, decideOps } from "../../../storage/tables/approvals.ts";
import { type LogEvent, readEvents } from "../../../storage/tables/events.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { waitsOfRun } from "../../../storage/tables/waits.ts";
import {
  itemsOfStep,
  stepsOfRun,
  type WorkflowRunRow,
  type WorkflowStepRow,
  wakeStepOps,
  workflowRunById,
} from "../../../storage/tables/workflow-runs.ts";
import { saveWorkflow } from "../../../storage/tables/workflows.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { runs } from "../../support/effort.ts";
import { eventually } from "../../support/eventually.ts";
import { ScriptedModel, type ScriptedReply, type ShownMessage } from "../../support/scripted-model.ts";
import { type StoppingStore, stoppingStore } from "../../support/stopping-store.ts";
import { gateDialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const env = systemEnv();
/** The next process lives this much later, so that each look that the first one has put off is due. */
const laterMs = 20_000;
const usage = { input: 10, output: 2, cacheRead: 0, cacheWrite: 0 };
const agentOf = (prompt: string) => ({ manifest: "agent", prompt });
const callOf = (tool: string) => ({ manifest: "agent", tool, args: { id: tool } });
const definition = {
  steps: [
    { id: "ask", kind: "agent", config: agentOf("use the tool") },
    { id: "put", kind: "tool_call", config: callOf("put"), needs: ["ask"] },
    { id: "pay", kind: "tool_call", config: callOf("note"), needs: ["put"], on_error: "continue" },
    { id: "is", kind: "condition", config: { expr: "steps.put.output == 'put put'" }, needs: ["pay"] },
    {
      ...{ id: "each", kind: "map", when: "{{steps.is.true}}" },
      config: { items: ["x", "y"], max_parallel: 1, step: { kind: "agent", config: agentOf("item {{item}}") } },
    },
    { id: "may", kind: "approval", config: { message: "Send it?", ttl_seconds: 3_600 }, needs: ["each"] },
    { id: "rest", kind: "wait", config: { seconds: 0.01 }, needs: ["may"] },
    { id: "all", kind: "merge", config: { values: ["$steps.ask.text", "$steps.each.results"] }, needs: ["rest"] },
    { id: "end", kind: "template", config: { text: "{{steps.may.note}}: {{steps.all.values}}" } },
  ],
  outputs: { text: "$steps.end.text", paid: "$steps.pay.output" },
};
/** Answers of the model in a run. */
const answers = 4;

function answer(messages: readonly ShownMessage[]): ScriptedReply {
  const prompt = messages.findLast(({ role }) => role === "user")?.content ?? "";
  if (!prompt.startsWith("use")) return { text: [`Did ${prompt}.`], usage };
  if (messages.at(-1)?.role !== "user") return { text: ["Used."], usage };
  return { calls: [{ id: "a", name: "note", arguments: JSON.stringify({ id: "a" }) }], usage };
}

const isTransition = (ops: readonly WriteOp[]): boolean =>
  ops.some(({ statement }) => statement.name === "workflow_run_advance");

for (const dialect of gateDialects)
  describe(`a process that dies after each batch of a run of a workflow, on ${dialect}`, () => {
    const atEnd = cleanup();
    /** Calls of the tools that had an effect, by their threads. */
    const effects: string[] = [];
    let store: Store;
    let tenant: TenantStore;
    let settings: ReturnType<typeof processSettings>;
    let count = 0;

    const tool = (name: string, effect: "idempotent" | "once") =>
      defineTool({
        ...{ name, description: "Leaves a trace.", effect, risk: "writes" },
        parameters: Type.Object({ id: Type.String() }, { additionalProperties: false }),
        execute({ id }, { threadSuffix }) {
          effects.push(String(threadSuffix));
          return { text: `${name} ${id}` };
        },
      });
    const tools = [tool("note", "once"), tool("put", "idempotent")];
    const principal = { tenant_id: tenantId, sub: "alice", scopes: [], scheme: "none", issuer: "" };

    before(async () => {
      settings = processSettings(
        atEnd,
        { agent: { tools: tools.map(({ name }) => name) } },
        { SVC_AUDIT_FLUSH_SECONDS: "3600" },
      );
      ({ store } = await testStore(dialect, atEnd));
      tenant = store.tenant(tenantId);
      const saved = { id: "flow", name: "flow", description: "", definition: JSON.stringify(definition) };
      const now = env.now();
      await saveWorkflow(tenant, undefined, { ...saved, saver: principal }, { now, limit: 0, pinned: [], ops: [] });
    });

    function start(of: Store, later: number) {
      const model = new ScriptedModel(env, answer, () => 0);
      const bootId = `process-${++count}`;
      const process = new ActorProcess({ env: systemEnv(later), store: of, settings, model, tools, bootId });
      atEnd.after(() => process.close());
      return { process, model, bootId };
    }

    const rowsOf = async (runId: string): Promise<WorkflowStepRow[]> =>
      (await Promise.all([stepsOfRun(tenant, runId), itemsOfStep(tenant, runId, "each")])).flat();
    const suffixOf = ({ run_id, step_id, item }: WorkflowStepRow) => workflowSuffix(run_id, step_id, item);

    async function logOf(row: WorkflowStepRow): Promise<LogEvent[]> {
      const head = await threadBySuffix(tenant, suffixOf(row));
      return head === undefined ? [] : readEvents(tenant, head.thread_key, 0, 1_000);
    }
    /** Counts the answers of the model in the logs of the agents. */
    async function answersOf(rows: readonly WorkflowStepRow[]): Promise<number> {
      const agents = rows.filter(({ step_id }) => step_id === "ask" || step_id === "each");
      const events = (await Promise.all(agents.map(logOf))).flat();
      return events.filter(({ kind, role }) => kind === "message" && role === "assistant").length;
    }

    /** Looks at a run as the periodic task does, and decides what it asks, until it ends or its process dies. Returns the interrupted calls. */
    async function drive(runId: string, process: ActorProcess, outcome: Decision["decision"], dying?: StoppingStore) {
      const interrupted: string[] = [];
      let isDead = false;
      void dying?.stopped.then(() => {
        isDead = true;
      });
      const decide = (id: string, decision: Decision["decision"], note: string, more: readonly WriteOp[] = []) =>
        tenant.write([...decideOps(tenant, id, { decision, note, edited_args: null }, "bob"), ...more]);
      await eventually(`the end of ${runId}`, async () => {
        if (isDead) return true;
        const run = await workflowRunById(tenant, runId);
        if (run === undefined) return undefined;
        if (run.finished_at !== null) return true;
        process.bus.tell(workflowAddress(tenantId, runId), "look", {});
        for (const { id, rule_id } of (await approvalPage(tenant, { status: "pending" }, null, 100)).rows) {
          if (rule_id !== "workflow:may") continue;
          await decide(id, "approved", "fine", wakeStepOps(tenant, runId, "may"));
          process.bus.tell(workflowAddress(tenantId, runId), "ended", { step_id: "may", item: -1 });
        }
        for (const row of await rowsOf(runId)) {
          if (row.child_run_id === null) continue;
          for (const { state, approval_id, call } of await waitsOfRun(tenant, row.child_run_id)) {
            if (state !== "open" || approval_id === null) continue;
            assert.equal(call.begun, "once");
            interrupted.push(row.step_id);
            await decide(approval_id, outcome, "");
            process.bus.tell(runAddress(tenantId, suffixOf(row), row.child_run_id), "resume", { due: false });
          }
        }
        return undefined;
      });
      return interrupted;
    }

    /** Runs in a process that dies after so many batches, and continues in the next one. Returns false if the run ended before. */
    async function dieAfter(
      batches: number,
      isAnswered: boolean,
      outcome: Decision["decision"],
      counts: (ops: readonly WriteOp[]) => boolean,
    ): Promise<boolean> {
      const name = `${batches} ${isAnswered} ${outcome}`;
      const runId = env.id();
      const dying = stoppingStore(store, batches, isAnswered, counts);
      const first = start(dying, 0);
      const asked = { workflow_id: "flow", revision: null, cause: "request" as const, taint: [] };
      void first.process.bus
        .ask(workflowAddress(tenantId, runId), "start", { ...asked, principal, inputs: toJsonText({}) })
        .catch(() => {});
      await drive(runId, first.process, outcome, dying);
      first.process.close();
      const rows = await rowsOf(runId);
      const logged = await answersOf(rows);
      const before = (await workflowRunById(tenant, runId)) as WorkflowRunRow;

      const { process, model, bootId } = start(store, laterMs);
      for (const row of rows)
        if (row.child_run_id !== null) await process.bus.ask(threadAddress(tenantId, suffixOf(row)), "recover", {});
      process.bus.tell(durableAddress(bootId), "look", { all: true });
      const interrupted = await drive(runId, process, outcome);
      process.close();

      const run = (await workflowRunById(tenant, runId)) as WorkflowRunRow;
      const ended = await rowsOf(runId);
      const isLost = interrupted.includes("pay") && outcome === "denied";
      assert.equal(run.status, "succeeded", `${name}: ${run.error}`);
      assert.deepEqual(
        JSON.parse(run.outputs ?? "null"),
        { text: 'fine: ["Used.",["Did item x.","Did item y."]]', paid: isLost ? null : "note note" },
        name,
      );
      for (const { step_id, item, attempt, status } of ended) {
        assert.equal(attempt, 1, `${name}: ${step_id} ${item}`);
        assert.equal(status, isLost && step_id === "pay" ? "failed" : "succeeded", `${name}: ${step_id} ${item}`);
      }
      assert.equal(await answersOf(ended), answers, `${name}: each answer is in a log once`);
      if (before.finished_at === null) assert.equal(model.requests.length, answers - logged, `${name}: asked once`);
      for (const row of ended.filter(({ step_id }) => ["ask", "pay", "put"].includes(step_id))) {
        const ran = effects.filter((suffix) => suffix === suffixOf(row)).length;
        const isAgain = interrupted.includes(row.step_id) && outcome === "approved";
        assert.ok(
          row.step_id === "put" ? ran >= 1 : ran <= (isAgain ? 2 : 1),
          `${name}: ${row.step_id} ran ${ran} times`,
        );
      }
      return before.finished_at === null;
    }

    test("WF-009 a run of every kind ends as without a crash, and begins no step again", async () => {
      assert.deepEqual(
        new Set(definition.steps.map(({ kind }) => kind)),
        new Set(builtInKinds.map(({ kind }) => kind)),
      );
      const isLong = runs(1_000) === 1_000;
      for (const counts of isLong ? [isTransition, () => true] : [isTransition]) {
        let points = 0;
        for (let isOpen = true; isOpen; ) {
          points++;
          const outcome = points % 2 === 0 ? "approved" : "denied";
          isOpen = await dieAfter(points, true, outcome, counts);
          await dieAfter(points, false, outcome === "approved" ? "denied" : "approved", counts);
        }
        assert.ok(points >= (counts === isTransition ? 8 : 20), `${points} crash points`);
      }
    });

    test("WF-009 the periodic look finds a decision whose message was lost", async () => {
      const steps = [{ id: "ask", kind: "approval", config: { message: "Send it?", ttl_seconds: 3_600 } }];
      const saved = { id: "asks", name: "asks", description: "", definition: JSON.stringify({ steps, outputs: {} }) };
      const now = env.now();
      await saveWorkflow(tenant, undefined, { ...saved, saver: principal }, { now, limit: 0, pinned: [], ops: [] });
      const runId = env.id();
      const { process } = start(store, 0);
      const asked = { workflow_id: "asks", revision: null, cause: "request" as const, taint: [] };
      await process.bus.ask(workflowAddress(tenantId, runId), "start", { ...asked, principal, inputs: toJsonText({}) });
      const request = await eventually("the request", async () => {
        const { rows } = await approvalPage(tenant, { status: "pending" }, null, 100);
        return rows.find(({ rule_id }) => rule_id === "workflow:ask");
      });

      const decided = decideOps(tenant, request.id, { decision: "approved", note: "", edited_args: null }, "bob");
      await tenant.write([...decided, ...wakeStepOps(tenant, runId, "ask")]);

      await eventually("the end", async () => {
        await lookAtWorkflows(store, process.bus);
        return (await workflowRunById(tenant, runId))?.status === "succeeded";
      });
      process.close();
    });
  });
