import { createHash } from "node:crypto";
import { workflowAddress } from "../../bus/address.ts";
import { breathe } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { tellNews } from "../../bus/protocol/news.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { workflowTopic, writeVersion } from "../../bus/protocol/workflow-versions.ts";
import { auditOp } from "../../governance/audit.ts";
import { refreshAccess } from "../../governance/auth/fresh-access.ts";
import { isRevoked } from "../../governance/auth/revoked.ts";
import { holds, readCondition } from "../../governance/workflows/condition.ts";
import {
  outputsBytesMax,
  type StepDefinition,
  type StepWork,
  valueBytesMax,
  type WorkflowDefinition,
} from "../../governance/workflows/definition.ts";
import { itemsProblem } from "../../governance/workflows/read-definition.ts";
import { Expansion, UnreadableReference, UnusableValue } from "../../governance/workflows/references.ts";
import { runRecord } from "../../governance/workflows/run-record.ts";
import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import {
  advanceRunOps,
  putOffRunOps,
  type WorkflowRunRow,
  type WorkflowStepRow,
} from "../../storage/tables/workflow-runs.ts";
import type { RevisionRow } from "../../storage/tables/workflows.ts";
import type { ActorContext } from "../runtime/define.ts";
import { workedMs } from "./child-run.ts";
import type { WorkflowDeps } from "./deps.ts";
import { Draft, isOpen, isOver, unitKey } from "./draft.ts";
import { stepPrincipal } from "./run-principal.ts";
import type { Begun, KindServices, Outcome, StepKind, Unit } from "./step-kind.ts";
import { filledConfig, firstPort, RunValues } from "./step-values.ts";

// The progress of one run. A turn reads how far the open work is, decides what ends and what begins, and writes all of it in one batch that
// requires the version before. Work starts after its batch, under an id that is derived from its try, so that a crash between the two is
// repaired by a repeated start. The rows are the state; this object is a cache of them.

/** Steps and items that one batch begins at most. The next turn begins more. */
const beginMax = 64;
/** Pause before a start is repeated that was refused for now, or whose outcome is unknown. */
const againMs = 5_000;
/** Pause before a run looks for a kind whose plugin is missing. */
const missingMs = 30_000;
/** Longest pause between two tries of a step. */
const backOffMsMax = 3_600_000;
/** Max age of a run. */
const ageMsMax = 60 * 86_400_000;
const parallelDefault = 4;
const errorCharsMax = 2_000;

/** JSON of the column `state`. */
interface StepState {
  /** The step waits for its next try. */
  readonly again?: true;
  /** The step was given up because it worked for too long. */
  readonly timedOut?: true;
  /** True if the last try had an error; shown while the step waits. */
  readonly own?: unknown;
}

/** The items of a map and the untrusted sources of their list. */
interface MapItems {
  readonly value: readonly unknown[];
  readonly taint: readonly string[];
}

/** What follows the batch of a turn. */
interface After {
  readonly starts: Unit[];
  readonly cancels: Unit[];
}

/** Advances one run of a workflow. */
export class RunProgress {
  readonly #store: TenantStore;
  readonly #context: ActorContext<WorkflowDeps>;
  readonly #services: KindServices;
  readonly #definition: WorkflowDefinition;
  readonly #revision: RevisionRow;
  readonly #byId: ReadonlyMap<string, StepDefinition>;
  #run: WorkflowRunRow;
  #steps: ReadonlyMap<string, WorkflowStepRow>;
  #items: ReadonlyMap<string, ReadonlyMap<number, WorkflowStepRow>>;
  /** Units whose end was reported, or whose start was refused with this outcome. */
  readonly #told = new Map<string, Outcome | null>();
  /** The items of the maps that have begun. */
  readonly #mapItems = new Map<string, MapItems>();
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
    this.#context = context;
    const { env, bus, deps } = context;
    this.#services = { store, bus, env, mask: deps.mask, log: deps.log };
    this.#run = rows.run;
    this.#revision = rows.revision;
    this.#definition = rows.definition;
    this.#byId = new Map(rows.definition.steps.map((step) => [step.id, step]));
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

  get isIdle(): boolean {
    return this.#working === null;
  }

  /** The work of a unit has ended. */
  ended(unit: Pick<WorkflowStepRow, "step_id" | "item">): Promise<void> {
    this.#told.set(unitKey(unit), null);
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
          this.#context.deps.log.error({ err: error, workflow_run_id: this.#run.id }, "a run of a workflow failed");
        throw error;
      }
      if (this.#isDue) await breathe(this.#context.env);
    }
  }

  async #turn(): Promise<void> {
    const draft = new Draft(this.#run, this.#steps, this.#items);
    const after: After = { starts: [], cancels: [] };
    const ops: WriteOp[] = [];
    await this.#look(draft, after);
    await refreshAccess(this.#starter, this.#context.deps, this.#context.env.now());
    this.#stopIfDue(draft);
    if (isStopping(draft.run)) this.#stopSteps(draft, after, ops);
    else await this.#goOn(draft, after, ops);
    this.#end(draft);
    if (!draft.isChanged) return this.#putOff(draft);
    await this.#write(draft, ops);
    this.#startAndCancel(after);
  }

  /** Reads how far the open work is. */
  async #look(draft: Draft, after: After): Promise<void> {
    const now = this.#context.env.now();
    const due = draft
      .open()
      .filter((row) => this.#told.has(unitKey(row)) || (row.due_at ?? 0) <= now)
      .filter((row) => row.item >= 0 || this.#byId.get(row.step_id)?.kind !== "map");
    for (let from = 0; from < due.length; from += beginMax)
      await Promise.all(due.slice(from, from + beginMax).map((row) => this.#lookAt(row, draft, after)));
    // Ends that arrive from here on are for the next turn.
    for (const row of due) this.#told.delete(unitKey(row));
  }

  async #lookAt(row: WorkflowStepRow, draft: Draft, after: After): Promise<void> {
    const { env } = this.#context;
    const told = this.#told.get(unitKey(row)) ?? null;
    const work = this.#workOf(row);
    const state = stateOf(row);
    const kind = this.#context.deps.stepKinds.get(work.kind);
    if (state.again === true) return;
    if (told !== null) return this.#over(row, work, told, draft);
    if (kind?.look === undefined) {
      const due_at = env.now() + missingMs;
      draft.put({ ...row, status: "waiting", due_at });
      return;
    }
    const unit = this.#unitOf(row, work, kind);
    if ("kind" in unit) return this.#over(row, work, unit, draft);
    let looked: Awaited<ReturnType<NonNullable<StepKind["look"]>>>;
    try {
      looked = await kind.look(unit, this.#services);
    } catch (error) {
      const refusal = SvcError.from(error);
      if (refusal.retryable || refusal.code === "internal_error") {
        if (refusal.code === "internal_error")
          this.#context.deps.log.error({ err: error, step_id: row.step_id }, "a step of a workflow could not be read");
        draft.put({ ...row, due_at: env.now() + againMs });
        return;
      }
      looked = { kind: "failed", error: refusal.message, mayRetry: true };
    }
    if (looked.kind === "done" && state.timedOut === true && row.child_run_id !== null) {
      // The work was over before it could be stopped.
      return this.#over(row, work, looked, draft);
    }
    if (looked.kind === "failed" && state.timedOut === true)
      return this.#over(row, work, { ...looked, error: timeoutWords(work) }, draft);
    if (looked.kind !== "pending") return this.#over(row, work, looked, draft);
    const { timeout_seconds } = work;
    let { due_at } = looked;
    let timedOut = state.timedOut === true;
    if (timeout_seconds !== null && !timedOut) {
      const worked =
        row.child_run_id === null ? env.now() - (row.started_at ?? env.now()) : await workedMs(unit, this.#services);
      const left = timeout_seconds * 1_000 - worked;
      if (left > 0) due_at = Math.min(due_at, env.now() + Math.max(500, left));
      else {
        timedOut = true;
        due_at = Math.min(due_at, env.now() + againMs);
        if (kind.cancel === undefined) {
          return this.#over(row, work, { kind: "failed", error: timeoutWords(work), mayRetry: true }, draft);
        }
        after.cancels.push(unit);
      }
    } else if (timedOut) after.cancels.push(unit);
    const own = looked.state ?? state.own;
    const next: StepState = { ...(timedOut && { timedOut }), ...(own !== undefined && { own }) };
    draft.put({ ...row, status: looked.status, due_at, state: JSON.stringify(next) });
  }

  /** Ends a try of a unit: with its output, with another try, or as failed. */
  #over(row: WorkflowStepRow, work: StepWork, outcome: Outcome, draft: Draft): void {
    const now = this.#context.env.now();
    const { cost_usd = 0 } = outcome;
    const spent = row.cost_usd + cost_usd;
    if (cost_usd > 0) draft.run = { ...draft.run, cost_usd: draft.run.cost_usd + cost_usd };
    const ended = { ...row, state: null, due_at: null, cost_usd: spent, finished_at: now };
    if (outcome.kind === "done") {
      const output = JSON.stringify(outcome.output);
      const words = this.#outputProblem(output, draft);
      if (words === null) {
        draft.put({ ...ended, status: "succeeded", output, error: null, taint: outcome.taint.slice(0, 64) });
        return;
      }
      draft.put({ ...ended, status: "failed", error: words });
      return;
    }
    const { max, backoff_seconds } = work.retry;
    const isLast = row.attempt > max;
    if (outcome.mayRetry && !isLast && !isStopping(draft.run) && !this.#cancels) {
      const pause = Math.min(backOffMsMax, backoff_seconds * 1_000 * 2 ** (row.attempt - 1));
      const next: StepState = { again: true };
      draft.put({
        ...row,
        cost_usd: spent,
        status: "waiting",
        error: outcome.error.slice(0, errorCharsMax),
        state: JSON.stringify(next),
        due_at: now + pause,
      });
      return;
    }
    const why =
      max > 0 && !outcome.mayRetry && !isLast
        ? " (not tried again: a call that may have changed something had begun)"
        : "";
    draft.put({ ...ended, status: "failed", error: (outcome.error + why).slice(0, errorCharsMax) });
  }

  #outputProblem(output: string, draft: Draft): string | null {
    const bytes = Buffer.byteLength(output);
    if (bytes > valueBytesMax) return `output_too_large: the output has more than ${valueBytesMax} bytes`;
    let all = bytes;
    for (const step of draft.steps.values()) all += step.output?.length ?? 0;
    return all > outputsBytesMax
      ? `output_too_large: the outputs of the run have more than ${outputsBytesMax} bytes`
      : null;
  }

  /** Begins to stop the run: on request, at its deadline, beyond its budget, or without its starter. */
  #stopIfDue(draft: Draft): void {
    const { env, deps } = this.#context;
    if (this.#cancels && draft.run.status !== "cancelling") draft.putRun({ status: "cancelling" });
    if (isStopping(draft.run)) return;
    const { max_cost_usd, max_wall_clock_seconds } = this.#definition.limits;
    const age = env.now() - draft.run.ts;
    const failed = [...draft.steps.values()].find(
      ({ status, step_id }) => status === "failed" && this.#byId.get(step_id)?.on_error === "fail",
    );
    if (failed !== undefined)
      draft.putRun({ error: `step_failed: ${failed.step_id}: ${failed.error ?? ""}`.slice(0, errorCharsMax) });
    else if (isRevoked(this.#starter, deps, env.now())) draft.putRun({ error: "principal_revoked" });
    else if (age >= Math.min(ageMsMax, (max_wall_clock_seconds ?? Number.POSITIVE_INFINITY) * 1_000))
      draft.putRun({ error: "deadline: the run has reached its time limit" });
    else if (max_cost_usd !== null && draft.run.cost_usd >= max_cost_usd && hasWork(draft))
      draft.putRun({ error: `budget_exceeded: the run has spent its ${max_cost_usd} USD` });
  }

  /** Cancels what has not begun, and stops what is under way. */
  #stopSteps(draft: Draft, after: After, ops: WriteOp[]): void {
    const now = this.#context.env.now();
    for (const row of draft.steps.values())
      if (row.status === "pending") draft.put({ ...row, status: "cancelled", finished_at: now });
    for (const row of draft.open()) {
      const work = this.#workOf(row);
      const ended = { ...row, status: "cancelled" as const, state: null, due_at: null, finished_at: now };
      if (work.kind === "map" && row.item < 0) continue;
      const kind = this.#context.deps.stepKinds.get(work.kind);
      const unit = kind === undefined || stateOf(row).again === true ? null : this.#unitOf(row, work, kind);
      if (unit === null || "kind" in unit) {
        draft.put(ended);
        continue;
      }
      ops.push(...(kind?.cancelOps?.(unit, this.#services) ?? []));
      if (row.child_run_id === null) {
        if (kind?.cancel !== undefined) after.cancels.push(unit);
        draft.put(ended);
      } else {
        after.cancels.push(unit);
        if ((row.due_at ?? 0) > now + againMs || (row.due_at ?? 0) <= now) draft.put({ ...row, due_at: now + againMs });
      }
    }
    for (const row of draft.steps.values()) {
      if (!isOpen(row) || this.#byId.get(row.step_id)?.kind !== "map") continue;
      if ([...(draft.items.get(row.step_id)?.values() ?? [])].some(isOpen)) continue;
      draft.put({ ...row, status: "cancelled", state: null, due_at: null, finished_at: now });
    }
  }

  /** Ends and begins steps until nothing changes. */
  async #goOn(draft: Draft, after: After, ops: WriteOp[]): Promise<void> {
    let begun = 0;
    for (let changed = true; changed && !isStopping(draft.run); ) {
      changed = false;
      for (const step of this.#definition.steps) {
        const row = draft.steps.get(step.id);
        if (row === undefined) continue;
        if (step.kind === "map" && isOpen(row)) {
          const made = await this.#goOnMap(step, row, draft, after, ops, beginMax - begun);
          begun += made;
          if (made > 0 || isOver(draft.steps.get(step.id) ?? row)) changed = true;
        } else if (isOpen(row) && stateOf(row).again === true && (row.due_at ?? 0) <= this.#context.env.now()) {
          await this.#begin(row, step, draft, after, ops);
          changed = true;
        } else if (row.status === "pending" && this.#isReady(step, draft)) {
          if (begun >= beginMax) {
            this.#isDue = true;
            return;
          }
          begun++;
          await this.#enter(step, row, draft, after, ops);
          changed = true;
        }
      }
      this.#stopIfDue(draft);
      if (begun >= beginMax) {
        this.#isDue = true;
        break;
      }
    }
    if (isStopping(draft.run)) this.#stopSteps(draft, after, ops);
  }

  #isReady({ needs }: StepDefinition, draft: Draft): boolean {
    return needs.every((id) => isOver(draft.steps.get(id) ?? { status: "pending" }));
  }

  /** Skips a step whose turn has come, or begins it. */
  async #enter(step: StepDefinition, row: WorkflowStepRow, draft: Draft, after: After, ops: WriteOp[]): Promise<void> {
    const now = this.#context.env.now();
    const { needs, when } = step;
    const isSkipped = needs.length > 0 && needs.every((id) => draft.steps.get(id)?.status === "skipped");
    const values = this.#valuesOf(draft);
    const expansion = new Expansion(values.scopeOf(step.inputs, null));
    if (isSkipped || (when !== null && !holds(readCondition(when), expansion))) {
      draft.put({ ...row, status: "skipped", finished_at: now });
      return;
    }
    if (step.kind === "map") {
      draft.put({ ...row, status: "running", attempt: 1, started_at: now });
      return;
    }
    await this.#begin(row, step, draft, after, ops);
  }

  /** Begins a try of a step, or of an item of a map. */
  async #begin(row: WorkflowStepRow, work: StepWork, draft: Draft, after: After, ops: WriteOp[]): Promise<void> {
    const { env, deps } = this.#context;
    const now = env.now();
    const next = { ...row, attempt: row.attempt + 1, state: null, started_at: row.started_at ?? now };
    const kind = deps.stepKinds.get(work.kind);
    if (kind === undefined) {
      // The plugin is missing; the run waits for it, as durable runs do (decision 225).
      const state: StepState = { again: true };
      draft.put({
        ...row,
        status: "waiting",
        state: JSON.stringify(state),
        error: `missing_kind: ${work.kind}`,
        due_at: now + missingMs,
      });
      return;
    }
    const unit = this.#unitOf(next, work, kind, draft);
    if ("kind" in unit) return this.#over(next, work, unit, draft);
    let begun: Begun;
    try {
      begun = await kind.begin(unit, this.#services);
    } catch (error) {
      const refusal = SvcError.from(error);
      if (refusal.code === "internal_error")
        deps.log.error({ err: error, step_id: row.step_id }, "a step of a workflow could not begin");
      begun = { kind: "failed", error: refusal.message, mayRetry: false };
    }
    if (begun.kind !== "pending") return this.#over(next, work, begun, draft);
    const { status, due_at, state, child_run_id = null } = begun;
    ops.push(...(begun.ops ?? []));
    const stored: StepState = state === undefined ? {} : { own: state };
    draft.put({ ...next, status, due_at, child_run_id, error: null, state: JSON.stringify(stored) });
    if (kind.started !== undefined) after.starts.push(unit);
  }

  /** Begins further items of a map, and ends it after its last. Returns the number of items that began. */
  async #goOnMap(
    step: StepDefinition,
    row: WorkflowStepRow,
    draft: Draft,
    after: After,
    ops: WriteOp[],
    room: number,
  ): Promise<number> {
    const now = this.#context.env.now();
    const inner = this.#innerOf(step);
    const items = this.#itemsOf(step, draft);
    if (typeof items === "string") {
      draft.put({ ...row, status: "failed", error: items, state: null, due_at: null, finished_at: now });
      return 0;
    }
    const rows = draft.items.get(step.id) ?? new Map<number, WorkflowStepRow>();
    const failed = [...rows.values()].find(({ status }) => status === "failed");
    if (failed !== undefined && inner.on_error === "fail") {
      if (![...rows.values()].some(isOpen)) {
        const error = `item ${failed.item}: ${failed.error ?? ""}`.slice(0, errorCharsMax);
        draft.put({ ...row, status: "failed", error, state: null, due_at: null, finished_at: now });
      } else for (const open of [...rows.values()].filter(isOpen)) this.#giveUp(open, inner, draft, after);
      return 0;
    }
    const max = Number(step.config.max_parallel ?? parallelDefault);
    let begun = 0;
    for (const again of [...rows.values()])
      if (isOpen(again) && stateOf(again).again === true && (again.due_at ?? 0) <= now && begun < room) {
        await this.#begin(again, inner, draft, after, ops);
        begun++;
      }
    let open = [...(draft.items.get(step.id)?.values() ?? [])].filter(isOpen).length;
    for (let at = rows.size; at < items.value.length && open < max && begun < room; at++) {
      await this.#begin(newStep(row.run_id, step.id, at), inner, draft, after, ops);
      begun++;
      const made = draft.of(step.id, at);
      if (made !== undefined && isOpen(made)) open++;
      if (made?.status === "failed" && inner.on_error === "fail") break;
    }
    const all = draft.items.get(step.id) ?? new Map<number, WorkflowStepRow>();
    const isComplete = all.size === items.value.length && [...all.values()].every(isOver);
    const hasFailed = inner.on_error === "fail" && [...all.values()].some(({ status }) => status === "failed");
    if (isComplete && !hasFailed) this.#endMap(row, inner, all, items.taint, draft);
    return begun;
  }

  #endMap(
    row: WorkflowStepRow,
    inner: StepWork,
    rows: ReadonlyMap<number, WorkflowStepRow>,
    taint: readonly string[],
    draft: Draft,
  ): void {
    const shape = this.#context.deps.stepKinds.get(inner.kind);
    const results = [...rows.values()]
      .sort((a, b) => a.item - b.item)
      .map(({ output }) => (output === null || shape === undefined ? null : firstPort(shape, JSON.parse(output))));
    const sources = [...new Set([...taint, ...[...rows.values()].flatMap((one) => one.taint)])].sort();
    const noRetry = { ...inner, retry: { max: 0, backoff_seconds: 1 } };
    this.#over(row, noRetry, { kind: "done", output: { results }, taint: sources }, draft);
  }

  /** Stops an item whose map has failed. */
  #giveUp(row: WorkflowStepRow, inner: StepWork, draft: Draft, after: After): void {
    const now = this.#context.env.now();
    const kind = this.#context.deps.stepKinds.get(inner.kind);
    const unit = kind === undefined || stateOf(row).again === true ? null : this.#unitOf(row, inner, kind);
    if (unit === null || "kind" in unit || row.child_run_id === null) {
      draft.put({ ...row, status: "cancelled", state: null, due_at: null, finished_at: now });
      return;
    }
    after.cancels.push(unit);
    if ((row.due_at ?? 0) > now + againMs) draft.put({ ...row, due_at: now + againMs });
  }

  /** Ends the run if nothing is left to do, and sets the time of its next look. */
  #end(draft: Draft): void {
    const { env } = this.#context;
    const now = env.now();
    const steps = [...draft.steps.values()];
    const open = draft.open();
    const isStopped = isStopping(draft.run);
    if (open.length === 0 && steps.every(isOver)) {
      if (isStopped) {
        const status = draft.run.status === "cancelling" ? "cancelled" : "failed";
        draft.putRun({ status, finished_at: now, wake_at: null });
        return;
      }
      draft.putRun({ ...this.#outputsOf(draft), finished_at: now, wake_at: null });
      return;
    }
    const working = open.filter(({ step_id, item }) => item >= 0 || this.#byId.get(step_id)?.kind !== "map");
    const isRunning = working.some(({ status }) => status === "running") || working.length === 0;
    const status = draft.run.status === "cancelling" ? "cancelling" : isRunning ? "running" : "waiting";
    if (status !== draft.run.status) draft.putRun({ status });
    const { max_wall_clock_seconds } = this.#definition.limits;
    const deadline = draft.run.ts + Math.min(ageMsMax, (max_wall_clock_seconds ?? Number.POSITIVE_INFINITY) * 1_000);
    const due = working.map(({ due_at }) => due_at ?? now + againMs);
    const wake_at = Math.min(isStopped ? now + againMs : deadline, ...(due.length === 0 ? [now + againMs] : due));
    draft.run = { ...draft.run, wake_at: Math.ceil(wake_at) };
  }

  #outputsOf(draft: Draft): Pick<WorkflowRunRow, "status" | "outputs" | "error"> {
    const expansion = new Expansion(this.#valuesOf(draft).scope());
    try {
      const outputs = JSON.stringify(expansion.of(this.#definition.outputs));
      if (Buffer.byteLength(outputs) <= valueBytesMax) return { status: "succeeded", outputs, error: null };
    } catch (error) {
      if (!(error instanceof UnusableValue)) throw error;
    }
    return {
      status: "failed",
      outputs: null,
      error: `output_too_large: the outputs have more than ${valueBytesMax} bytes`,
    };
  }

  /** Stores the time of the next look, if it has changed. */
  async #putOff(draft: Draft): Promise<void> {
    const { wake_at } = draft.run;
    if (wake_at === null || wake_at === this.#run.wake_at) return;
    await this.#store.write(putOffRunOps(this.#store, this.#run, wake_at, []));
    this.#run = draft.run;
  }

  async #write(draft: Draft, ops: readonly WriteOp[]): Promise<void> {
    const { run } = draft;
    const store = this.#store;
    const { id, version } = this.#run;
    if (draft.isQuiet && ops.length === 0) {
      const stored = run.wake_at ?? this.#context.env.now();
      await store.write(putOffRunOps(store, this.#run, stored, draft.changed));
      this.#take(draft, version);
      return;
    }
    const isEnd = run.finished_at !== null;
    const audited = isEnd ? [this.#endedOp(run)] : [];
    await store.write([...advanceRunOps(store, id, version, run, draft.changed), ...ops, ...audited]);
    this.#take(draft, version + 1);
    if (isEnd) this.#context.deps.metrics.count("svc_workflow_runs_total", { outcome: run.status });
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
        this.#mapItems.delete(id);
      }
    this.#items = draft.items;
  }

  #endedOp(run: WorkflowRunRow): WriteOp {
    const { env, deps } = this.#context;
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
    const { bus, deps } = this.#context;
    const { id, workflow_id, status, version } = this.#run;
    const topic = workflowTopic(this.#store.tenantId, id);
    if (bus.hasSubscribers(topic)) {
      const record = runRecord(
        this.#store.tenantId,
        this.#run,
        [...this.#steps.values()],
        this.#definition.steps,
        true,
      );
      const text = deps.mask.forms.jsonText(JSON.stringify(record));
      bus.publish(topic, writeVersion({ version, isFinal: this.isEnded, record: text }));
    }
    tellNews(bus, this.#store.tenantId, () => ({ kind: "workflow_run", run_id: id, workflow_id, status, version }));
  }

  /** Starts and stops work after its batch. The rows say so already, so a failure is repaired by the next look. */
  #startAndCancel({ starts, cancels }: After): void {
    const { bus, deps } = this.#context;
    const address = workflowAddress(this.#store.tenantId, this.#run.id);
    for (const unit of starts) {
      const work = this.#workOf(unit);
      const started = deps.stepKinds.get(work.kind)?.started?.(unit, this.#services);
      started?.catch((error: unknown) => {
        const refusal = SvcError.from(error);
        if (refusal.code === "internal_error")
          deps.log.error({ err: error, step_id: unit.step_id }, "a step of a workflow could not be started");
        if (refusal.retryable || refusal.code === "internal_error") return;
        this.#told.set(unitKey(unit), { kind: "failed", error: refusal.message, mayRetry: false });
        bus.tell(address, "look", {});
      });
    }
    for (const unit of cancels) {
      const work = this.#workOf(unit);
      const stopped = deps.stepKinds.get(work.kind)?.cancel?.(unit, this.#services) ?? Promise.resolve();
      stopped.then(
        () => bus.tell(address, "ended", { step_id: unit.step_id, item: unit.item }),
        (err: unknown) => deps.log.warn({ err, step_id: unit.step_id }, "a step of a workflow could not be stopped"),
      );
    }
  }

  get #starter(): Principal {
    return { ...this.#run.starter, tenant_id: this.#store.tenantId };
  }

  #valuesOf(draft: Pick<Draft, "steps">): RunValues {
    const inputs = { value: JSON.parse(this.#run.inputs), taint: this.#run.taint };
    return new RunValues(inputs, draft.steps);
  }

  #workOf({ step_id, item }: Pick<WorkflowStepRow, "step_id" | "item">): StepWork {
    const step = this.#byId.get(step_id);
    if (step === undefined) throw new Error(`the revision has no step ${step_id}`);
    return item < 0 ? step : this.#innerOf(step);
  }

  #innerOf({ config }: StepDefinition): StepWork {
    const {
      kind,
      config: own = {},
      retry,
      timeout_seconds = null,
      on_error = "fail",
    } = config.step as Partial<StepWork>;
    return {
      kind: String(kind),
      config: own,
      retry: { max: 0, backoff_seconds: 10, ...retry },
      timeout_seconds,
      on_error,
    };
  }

  /** Returns the items of a map, or why there are none. They do not change once the map has begun. */
  #itemsOf(step: StepDefinition, draft: Pick<Draft, "steps">): MapItems | string {
    const known = this.#mapItems.get(step.id) ?? this.#readItems(step, draft);
    if (typeof known !== "string") this.#mapItems.set(step.id, known);
    return known;
  }

  #readItems(step: StepDefinition, draft: Pick<Draft, "steps">): MapItems | string {
    const expansion = new Expansion(this.#valuesOf(draft).scopeOf(step.inputs, null));
    try {
      const value = expansion.of(step.config.items);
      return itemsProblem(value) ?? { value: value as readonly unknown[], taint: expansion.taint };
    } catch (error) {
      if (error instanceof UnusableValue) return error.message;
      throw error;
    }
  }

  /** Returns a unit with its config filled, or why that failed. */
  #unitOf(
    row: WorkflowStepRow,
    work: StepWork,
    kind: StepKind,
    draft: Pick<Draft, "steps"> = { steps: this.#steps as Map<string, WorkflowStepRow> },
  ): Unit | Outcome {
    const step = this.#byId.get(row.step_id) as StepDefinition;
    const values = this.#valuesOf(draft);
    try {
      let item: Parameters<RunValues["scopeOf"]>[1] = null;
      if (row.item >= 0) {
        const items = this.#itemsOf(step, draft);
        if (typeof items === "string") throw new UnusableValue(items);
        item = { value: items.value[row.item] ?? null, index: row.item, taint: items.taint };
      }
      const expansion = new Expansion(values.scopeOf(step.inputs, item));
      const config = filledConfig(work, kind, expansion, values);
      const inputs = expansion.of(step.inputs) as Record<string, unknown>;
      return {
        run_id: this.#run.id,
        workflow_id: this.#run.workflow_id,
        step_id: row.step_id,
        item: row.item,
        attempt: row.attempt,
        config,
        inputs,
        taint: expansion.taint,
        values: expansion,
        principal: stepPrincipal(this.#starter, this.#revision.saver, this.#context.deps, this.#context.env.now()),
        id: unitId(this.#run.seed, row),
        state: stateOf(row).own ?? null,
        started_at: row.started_at,
      };
    } catch (error) {
      if (error instanceof UnusableValue || error instanceof UnreadableReference)
        return { kind: "failed", error: error.message, mayRetry: false };
      throw error;
    }
  }
}

/** Returns the id of a try, which depends on a secret of the run. */
function unitId(
  seed: string,
  { step_id, item, attempt }: Pick<WorkflowStepRow, "step_id" | "item" | "attempt">,
): string {
  return createHash("sha256")
    .update(JSON.stringify([seed, step_id, item, attempt]))
    .digest("hex")
    .slice(0, 32);
}

/** True if the run begins no more work. */
function isStopping({ status, error }: Pick<WorkflowRunRow, "status" | "error">): boolean {
  return status === "cancelling" || error !== null;
}

function hasWork(draft: Draft): boolean {
  return [...draft.steps.values()].some(({ status }) => status === "pending") || draft.open().length > 0;
}

function stateOf({ state }: Pick<WorkflowStepRow, "state">): StepState {
  return state === null ? {} : (JSON.parse(state) as StepState);
}

function timeoutWords({ timeout_seconds }: StepWork): string {
  return `timeout: the step has worked for more than ${timeout_seconds} seconds`;
}

/** Returns the state of a step, or of an item of a map, that has not begun. */
export function newStep(run_id: string, step_id: string, item = -1): WorkflowStepRow {
  return {
    ...{ run_id, step_id, item, status: "pending", attempt: 0, child_run_id: null, output: null, error: null },
    ...{ taint: [], state: null, due_at: null, cost_usd: 0, started_at: null, finished_at: null },
  } as WorkflowStepRow;
}
