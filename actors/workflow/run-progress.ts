import { workflowAddress } from "../../bus/address.ts";
import { breathe } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { tellNews } from "../../bus/protocol/news.ts";
import { workflowTopic, writeVersion } from "../../bus/protocol/workflow-versions.ts";
import { auditOp } from "../../governance/audit.ts";
import { refreshAccess } from "../../governance/auth/fresh-access.ts";
import type { WorkflowDefinition } from "../../governance/workflows/definition.ts";
import { runRecord } from "../../governance/workflows/run-record.ts";
import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import { leaveBudgetOps } from "../../storage/tables/run-budgets.ts";
import {
  advanceRunOps,
  putOffRunOps,
  type WorkflowRunRow,
  type WorkflowStepRow,
} from "../../storage/tables/workflow-runs.ts";
import type { RevisionRow } from "../../storage/tables/workflows.ts";
import type { ActorContext } from "../runtime/define.ts";
import { beginSteps } from "./begin-steps.ts";
import type { WorkflowDeps } from "./deps.ts";
import { Draft, isOver, unitKey } from "./draft.ts";
import { endOrWait } from "./end-run.ts";
import { lookAtWork, type Reported } from "./look-at-work.ts";
import { hasWork, stopIfDue, stopSteps } from "./stop-run.ts";
import { isStopping, kindOf, type RunPlan, type Turn, workOf } from "./turn.ts";

// The progress of one run. A turn reads how far the open work is, decides what ends and what begins, and writes all of it in one batch that
// requires the version before. Work starts after its batch, under an id that is derived from its try, so that a crash between the two is
// repaired by a repeated start. The rows are the state; this object is a cache of them.

/** Advances one run of a workflow. */
export class RunProgress {
  readonly #store: TenantStore;
  readonly #plan: RunPlan;
  #run: WorkflowRunRow;
  #steps: ReadonlyMap<string, WorkflowStepRow>;
  #items: ReadonlyMap<string, ReadonlyMap<number, WorkflowStepRow>>;
  readonly #reported: Reported = new Map();
  #cancels = false;
  #isDue = false;
  #isStale = false;
  #working: Promise<void> | null = null;

  constructor(
    store: TenantStore,
    rows: {
      readonly run: WorkflowRunRow;
      readonly steps: readonly WorkflowStepRow[];
      readonly items: readonly WorkflowStepRow[];
      readonly revision: RevisionRow;
      readonly definition: WorkflowDefinition;
    },
    context: ActorContext<WorkflowDeps>,
  ) {
    this.#store = store;
    const { env, bus, deps } = context;
    const { definition, revision } = rows;
    this.#plan = {
      ...{ context, definition, revision, mapItems: new Map() },
      services: { store, bus, env, mask: deps.mask, log: deps.log },
      byId: new Map(definition.steps.map((step) => [step.id, step])),
    };
    this.#run = rows.run;
    this.#steps = new Map(rows.steps.map((row) => [row.step_id, row]));
    const items = Map.groupBy(rows.items, ({ step_id }) => step_id);
    this.#items = new Map([...items].map(([id, list]) => [id, new Map(list.map((row) => [row.item, row]))]));
  }

  get isEnded(): boolean {
    return this.#run.finished_at !== null;
  }

  /** True if the rows may have changed without this object, which must be dropped then. */
  get isStale(): boolean {
    return this.#isStale;
  }

  /** Time of the next look, as this object has stored it. */
  get wakeAt(): number | null {
    return this.#run.wake_at;
  }

  get isIdle(): boolean {
    return this.#working === null;
  }

  /** The work of a unit has ended. */
  ended(unit: Pick<WorkflowStepRow, "step_id" | "item">): Promise<void> {
    this.#reported.set(unitKey(unit), null);
    return this.advance();
  }

  /** Stops the run. */
  cancel(): Promise<void> {
    this.#cancels = true;
    return this.advance();
  }

  /** Advances the run as far as it can go now. Calls that arrive during a batch share the next one. */
  advance(): Promise<void> {
    this.#isDue = true;
    this.#working ??= this.#work().finally(() => {
      this.#working = null;
    });
    return this.#working;
  }

  async #work(): Promise<void> {
    while (this.#isDue && !this.isEnded && !this.#isStale) {
      this.#isDue = false;
      try {
        await this.#turn();
      } catch (error) {
        // The batch may have been applied, or another process has advanced the run.
        this.#isStale = true;
        const { code } = SvcError.from(error);
        if (code === "conflict") return;
        if (code === "internal_error")
          this.#plan.context.deps.log.error(
            { err: error, workflow_run_id: this.#run.id },
            "a run of a workflow failed",
          );
        throw error;
      }
      if (this.#isDue) await breathe(this.#plan.context.env);
    }
  }

  async #turn(): Promise<void> {
    const { env, deps } = this.#plan.context;
    const draft = new Draft(this.#run, this.#steps, this.#items);
    const turn: Turn = {
      ...{ plan: this.#plan, draft, now: env.now(), isCancelled: this.#cancels },
      ...{ ops: [], starts: [], cancels: [], hasMore: false },
    };
    await lookAtWork(turn, this.#reported);
    await refreshAccess({ ...this.#run.starter, tenant_id: this.#store.tenantId }, deps, env.now());
    stopIfDue(turn);
    if (isStopping(draft.run)) stopSteps(turn);
    else await beginSteps(turn);
    endOrWait(turn);
    this.#isDue ||= turn.hasMore;
    if (!draft.isChanged) return this.#putOff(draft);
    await this.#write(turn);
    this.#startAndCancel(turn);
  }

  /** Stores the time of the next look, if it has changed. */
  async #putOff(draft: Draft): Promise<void> {
    const { wake_at } = draft.run;
    if (wake_at === null || wake_at === this.#run.wake_at) return;
    await this.#store.write(putOffRunOps(this.#store, this.#run, wake_at, []));
    this.#run = draft.run;
  }

  async #write({ draft, ops }: Turn): Promise<void> {
    const { run } = draft;
    const store = this.#store;
    const { id, version } = this.#run;
    if (draft.isQuiet && ops.length === 0) {
      const stored = run.wake_at ?? this.#plan.context.env.now();
      await store.write(putOffRunOps(store, this.#run, stored, draft.changed));
      this.#take(draft, version);
      return;
    }
    const isEnd = run.finished_at !== null;
    const ending = isEnd ? [this.#endedOp(run), ...this.#leaveBudgetOps()] : [];
    await store.write([...advanceRunOps(store, id, version, run, draft.changed), ...ops, ...ending]);
    this.#take(draft, version + 1);
    if (isEnd) this.#plan.context.deps.metrics.count("svc_workflow_runs_total", { outcome: run.status });
    this.#tell();
    if (!isEnd && hasWork(draft) && draft.open().length === 0) this.#isDue = true;
  }

  #take(draft: Draft, version: number): void {
    this.#run = { ...draft.run, version };
    this.#steps = draft.steps;
    // The items of a map that has ended are needed no more.
    for (const id of draft.items.keys())
      if (isOver(draft.steps.get(id) ?? { status: "pending" })) {
        draft.items.delete(id);
        this.#plan.mapItems.delete(id);
      }
    this.#items = draft.items;
  }

  #leaveBudgetOps(): WriteOp[] {
    return this.#plan.definition.limits.max_cost_usd === null ? [] : leaveBudgetOps(this.#store, this.#run.id);
  }

  #endedOp(run: WorkflowRunRow): WriteOp {
    const { env, deps } = this.#plan.context;
    return auditOp(
      this.#store,
      { env, mask: deps.mask },
      {
        event_type: "workflow_run_finished",
        status: run.status === "succeeded" ? "ok" : "error",
        manifest_id: "",
        principal_subj: run.starter.sub,
        payload: {
          workflow_id: run.workflow_id,
          run_id: run.id,
          status: run.status,
          ...(run.error !== null && { error: run.error }),
        },
      },
    );
  }

  /** Publishes the new version. */
  #tell(): void {
    const { bus, deps } = this.#plan.context;
    const { id, workflow_id, status, version } = this.#run;
    const topic = workflowTopic(this.#store.tenantId, id);
    if (bus.hasSubscribers(topic)) {
      const record = runRecord(
        this.#store.tenantId,
        this.#run,
        [...this.#steps.values()],
        this.#plan.definition.steps,
        true,
      );
      const text = deps.mask.forms.jsonText(JSON.stringify(record));
      bus.publish(topic, writeVersion({ version, isFinal: this.isEnded, record: text }));
    }
    tellNews(bus, this.#store.tenantId, () => ({ kind: "workflow_run", run_id: id, workflow_id, status, version }));
  }

  /** Starts and stops work after its batch. The rows say so already, so a failure is repaired by the next look. */
  #startAndCancel({ starts, cancels }: Turn): void {
    const { services } = this.#plan;
    const { bus, deps } = this.#plan.context;
    const address = workflowAddress(this.#store.tenantId, this.#run.id);
    for (const unit of starts) {
      const started = kindOf(this.#plan, workOf(this.#plan, unit))?.started?.(unit, services);
      started?.catch((error: unknown) => {
        const refusal = SvcError.from(error);
        if (refusal.code === "internal_error")
          deps.log.error({ err: error, step_id: unit.step_id }, "a step of a workflow could not be started");
        if (refusal.retryable || refusal.code === "internal_error") return;
        this.#reported.set(unitKey(unit), { kind: "failed", error: refusal.message, mayRetry: true });
        bus.tell(address, "look", {});
      });
    }
    for (const unit of cancels) {
      const kind = kindOf(this.#plan, workOf(this.#plan, unit));
      const stopped = kind?.cancel?.(unit, services) ?? Promise.resolve();
      stopped.then(
        () => bus.tell(address, "ended", { step_id: unit.step_id, item: unit.item }),
        (err: unknown) => deps.log.warn({ err, step_id: unit.step_id }, "a step of a workflow could not be stopped"),
      );
    }
  }
}
