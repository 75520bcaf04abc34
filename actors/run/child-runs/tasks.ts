import { taskSuffix, threadAddress } from "../../../bus/address.ts";
import { orderedId, type Timer } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import type {
  BudgetUsed,
  ReportedBreach,
  ReservationReply,
  ReservationRequest,
  SharedBudgets,
  SubmitTurn,
  TaskOutcome,
} from "../../../bus/protocol/run.ts";
import { takeCall } from "../../../governance/controls/limits.ts";
import { taskToolName } from "../../../manifests/sections/delegation.ts";
import { taskState } from "../../../storage/tables/task-waits.ts";
import { type ToolResult, type ToolWait, toolError } from "../../tools/tool.ts";
import type { RunContext } from "../context/run-context.ts";
import { taskNamesOf } from "../context/run-pipeline.ts";
import type { AskedTask, TaskFamily } from "../context/task-family.ts";
import { startBeside } from "./background-tasks.ts";
import { keepSpent, TaskReservations } from "./task-reservations.ts";
import { refusedStart, sharedBudgets, startTask } from "./task-start.ts";
import { depthOf, taskTurn } from "./task-turn.ts";

// Tasks that a run has handed to other agents (decision 99). Each is a run of its own, on a thread of its own that clients can read and
// nothing else. It asks this run before each model call and each tool call, for what it uses is used here too, and tells it how it has
// ended. A task that waits for somebody is put aside, and then its call waits for it like for any answer, so that this run is put aside
// too. Going on it asks for what it uses again, for which this run is taken up.

/** Tasks in a chain. */
const depthMax = 4;
/** How often it is asked whether a task still goes on. */
const lookMs = 5_000;

/** A task that goes on. */
interface AtWork {
  readonly left: Promise<HowLeft>;
  readonly leave: (how: HowLeft) => void;
  /** Of the next look. */
  timer: Timer | null;
}

type HowLeft = TaskOutcome | "aside";

/** The tasks of one run. */
export class Tasks implements TaskFamily {
  readonly #runContext: RunContext;
  readonly #reservations: TaskReservations;
  readonly #atWork = new Map<string, AtWork>();
  /** Tasks that are not over, whether they go on or are put aside. */
  readonly #open = new Set<string>();
  #changed = Promise.withResolvers<void>();

  /** `scope` is that of the agent that was asked. */
  constructor(runContext: RunContext) {
    this.#runContext = runContext;
    this.#reservations = new TaskReservations(runContext);
    runContext.cancellation.onCancel(() => this.#wake());
    for (const { kind, state, asked_as } of runContext.spec.resumed?.waits ?? [])
      if (kind === "task" && state === "open" && asked_as !== null) this.#open.add(asked_as);
  }

  async run(
    { agent, prompt, call_id, by, background }: AskedTask,
    signal: AbortSignal,
  ): Promise<ToolResult | ToolWait> {
    const { spec, deps } = this.#runContext;
    if (spec.thread_suffix === null) return toolError("permission_denied", "a task needs a conversation");
    const agents = [...(spec.parent?.agents ?? []), ...by];
    if (agents.includes(agent)) return toolError("permission_denied", `${agent} is at work above this task`);
    if (depthOf(this.#runContext) >= depthMax)
      return toolError("permission_denied", `tasks nest no deeper than ${depthMax}`);
    if (background !== null) {
      const names = { run_id: orderedId(deps.env), task_id: deps.env.id().slice(0, 16), agents };
      return startBeside(this.#runContext, { agent, prompt }, names, background.tasks_max, signal);
    }
    const names = this.#namesFor(call_id);
    const { task_id } = names;
    const { tenant_id } = spec.principal;
    const thread_id = threadAddress(tenant_id, taskSuffix(task_id)).key;
    this.#tell("subagent_start", { agent, background: false, task_id, thread_id }, signal);
    const turn = taskTurn(this.#runContext, { agent, prompt }, { ...names, agents });
    try {
      const left = await this.#handOut(turn, task_id, signal);
      return left === "aside" ? { wait: waitFor(agent, task_id) } : this.#came(agent, left, signal);
    } catch (error) {
      this.#left(task_id, lost);
      this.#tell("subagent_end", { agent, outcome: "error" }, signal);
      return refusedStart(agent, error);
    }
  }

  async rejoin(callId: string, agent: string, signal: AbortSignal): Promise<ToolResult | ToolWait | null> {
    const { task_id } = this.#namesFor(callId);
    const state = await taskState(this.#runContext.store, task_id);
    if (state === null) return null;
    if (typeof state === "object") return this.#came(agent, state, signal);
    this.#open.add(task_id);
    if (state === "running") this.#begin(task_id);
    return { wait: waitFor(agent, task_id) };
  }

  async result(taskId: string, agent: string, signal: AbortSignal): Promise<ToolResult> {
    const state = await taskState(this.#runContext.store, taskId);
    return this.#came(agent, state === null || typeof state === "string" ? lost : state, signal);
  }

  expect(taskId: string): void {
    this.#open.add(taskId);
    this.#begin(taskId);
  }

  async back(taskId: string): Promise<boolean> {
    const work = this.#atWork.get(taskId);
    if (work === undefined) return false;
    const left = await this.#runContext.cancellation.orStopped(work.left);
    return left !== null && left !== "aside";
  }

  async rest(): Promise<void> {
    while (this.isAtWork && !this.#runContext.cancellation.cancelled) await this.#changed.promise;
  }

  get isAtWork(): boolean {
    return this.#atWork.size > 0;
  }

  stop(taskId: string): void {
    const { deps, spec, abortReason } = this.#runContext;
    const address = threadAddress(spec.principal.tenant_id, taskSuffix(taskId));
    void deps.bus.ask(address, "abort", { reason: abortReason ?? "client" }).catch(() => {});
  }

  aside(taskId: string): void {
    this.#leave(taskId, "aside");
  }

  ended(taskId: string, outcome: TaskOutcome): void {
    this.#left(taskId, outcome);
  }

  close(): void {
    for (const { timer } of this.#atWork.values()) timer?.cancel();
    this.#atWork.clear();
    this.#open.clear();
    this.#wake();
  }

  async count(taskId: string, tool: string): Promise<ReportedBreach | null> {
    const { deps } = this.#runContext;
    const { budget } = this.#runContext.billing;
    this.#admit(taskId);
    const breach = takeCall(budget, tool, deps.env.monotonic());
    if (breach === null) await keepSpent(this.#runContext);
    if (breach !== null || budget.parentBudget === null) return breach;
    try {
      return await budget.parentBudget.count(tool);
    } catch (error) {
      // It will be asked again.
      budget.uncount(tool === taskToolName);
      throw error;
    }
  }

  reserve(asked: ReservationRequest): Promise<ReservationReply> {
    this.#admit(asked.task_id);
    return this.#reservations.reserve(asked, () => this.#atWork.has(asked.task_id));
  }

  share(taskId: string): Promise<SharedBudgets> {
    this.#admit(taskId);
    return sharedBudgets(this.#runContext);
  }

  repay(reservationId: string, used: BudgetUsed): void {
    this.#reservations.repay(reservationId, used);
  }

  settled(): Promise<void> {
    return this.#reservations.settled();
  }

  /** A durable run finds the task of a call again; any other has no use for that. */
  #namesFor(callId: string): { readonly task_id: string; readonly run_id: string } {
    const { spec, deps } = this.#runContext;
    if (this.#runContext.durableRun !== null) return taskNamesOf(spec.keyedAs, callId);
    return { task_id: deps.env.id().slice(0, 16), run_id: orderedId(deps.env) };
  }

  /** Whoever asks for something goes on. Refuses with actor_lost when nobody waits for it. */
  #admit(taskId: string): void {
    if (!this.#open.has(taskId)) throw new SvcError("actor_lost");
    this.#begin(taskId);
  }

  async #handOut(turn: SubmitTurn, task_id: string, signal: AbortSignal): Promise<HowLeft> {
    this.#open.add(task_id);
    const work = this.#begin(task_id, false);
    await startTask(this.#runContext, turn);
    this.#look(task_id, work, false);
    if (signal.aborted) this.stop(task_id);
    else signal.addEventListener("abort", () => this.stop(task_id), { once: true });
    return work.left;
  }

  #begin(taskId: string, isLookedFor = true): AtWork {
    const known = this.#atWork.get(taskId);
    if (known !== undefined) return known;
    const { promise: left, resolve: leave } = Promise.withResolvers<HowLeft>();
    const work: AtWork = { left, leave, timer: null };
    this.#atWork.set(taskId, work);
    if (isLookedFor) this.#look(taskId, work, false);
    return work;
  }

  /** What a task tells may get lost, and the task too: now and then it is looked for. */
  #look(taskId: string, work: AtWork, wasMissed: boolean): void {
    if (this.#atWork.get(taskId) !== work) return;
    work.timer = this.#runContext.deps.env.timer(lookMs, () => {
      void this.#isMissed(taskId, wasMissed).then((isMissed) => this.#look(taskId, work, isMissed));
    });
  }

  async #isMissed(taskId: string, wasMissed: boolean): Promise<boolean> {
    const { deps, spec, store } = this.#runContext;
    const address = threadAddress(spec.principal.tenant_id, taskSuffix(taskId));
    try {
      if ((await deps.bus.ask(address, "attach", {})).run_id !== null) return false;
      const state = await taskState(store, taskId);
      if (state === "aside") this.aside(taskId);
      else if (state !== null && state !== "running") this.#left(taskId, state);
      else if (wasMissed) this.#left(taskId, lost);
      return true;
    } catch {
      // Nobody knows yet.
      return wasMissed;
    }
  }

  /** A task is over. */
  #left(taskId: string, outcome: TaskOutcome): void {
    this.#open.delete(taskId);
    this.#leave(taskId, outcome);
  }

  #leave(taskId: string, how: HowLeft): void {
    const work = this.#atWork.get(taskId);
    if (work === undefined) return;
    this.#atWork.delete(taskId);
    work.timer?.cancel();
    this.#reservations.end(taskId);
    work.leave(how);
    this.#wake();
  }

  /** What came of a task is the run's from here on. */
  #came(agent: string, { ok, text, approvals, usage }: TaskOutcome, signal: AbortSignal): ToolResult {
    const { run } = this.#runContext;
    const { meter } = this.#runContext.billing;
    for (const id of approvals) run.approvals = (run.approvals ?? new Set()).add(id);
    if (usage !== null) meter.addTask(usage);
    this.#tell("subagent_end", { agent, outcome: ok ? "ok" : "error" }, signal);
    return ok ? { text } : toolError("provider_error", text);
  }

  #tell(name: string, data: unknown, signal: AbortSignal): void {
    if (!signal.aborted) this.#runContext.stream.frameInCall(name, data);
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }
}

const lost: TaskOutcome = { ok: false, text: "the task was lost", approvals: [], usage: null };

/** Answered by the end of the task, and by nobody else. */
function waitFor(agent: string, task_id: string): ToolWait["wait"] {
  const may_answer = { scopes: [], principal: "", not_principal: null };
  return { kind: "task", subject: agent, deadline: null, may_answer, asked_as: task_id };
}
