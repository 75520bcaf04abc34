import { taskSuffix, threadAddress } from "../../../bus/address.ts";
import { orderedId, type Timer } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { SubmitTurn } from "../../../bus/protocol/run.ts";
import type {
  BudgetUsed,
  ReportedBreach,
  ReservationReply,
  ReservationRequest,
  SharedBudgets,
  TaskOutcome,
} from "../../../bus/protocol/task.ts";
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

// Tasks that a run delegates to other agents (decision 99: tasks are runs on hidden threads). Clients can read such a thread and
// change nothing.
// A task spends from the budget of its parent run, so it asks that run before each model call and each tool call. It also reports
// its end to the parent. A task that waits for an answer is suspended. The call in the parent run then waits like for any other
// answer, and the parent is suspended too. When the task resumes it asks for budget again, and that ask resumes the parent.

/** Max depth of nested tasks. */
const depthMax = 4;
/** Interval at which a run checks that a task is still alive. */
const lookMs = 5_000;

/** A task that is working. */
interface AtWork {
  readonly left: Promise<HowLeft>;
  readonly leave: (how: HowLeft) => void;
  /** Timer of the next check. */
  timer: Timer | null;
}

type HowLeft = TaskOutcome | "aside";

/** The tasks of one run. */
export class Tasks implements TaskFamily {
  readonly #runContext: RunContext;
  readonly #reservations: TaskReservations;
  readonly #atWork = new Map<string, AtWork>();
  /** Ids of tasks that have not ended, working or suspended. */
  readonly #open = new Set<string>();
  #changed = Promise.withResolvers<void>();

  /** `runContext` is that of the agent that the caller asked. */
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
      // The task will ask again.
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

  /** Returns the ids for a task. Those of a durable run derive from the call, so that the call finds its task again after a crash. */
  #namesFor(callId: string): { readonly task_id: string; readonly run_id: string } {
    const { spec, deps } = this.#runContext;
    if (this.#runContext.durableRun !== null) return taskNamesOf(spec.keyedAs, callId);
    return { task_id: deps.env.id().slice(0, 16), run_id: orderedId(deps.env) };
  }

  /** Admits the request of a task, which thereby counts as working. Refuses with actor_lost if no call waits for the task. */
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

  /** Checks a working task at intervals: its messages may get lost, and so may the task. */
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
      // The answer is unknown; the next check repeats the question.
      return wasMissed;
    }
  }

  /** Records the end of a task. */
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

  /** Returns the result of a task. The run takes over its usage and its approvals. */
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

/** Returns the wait for a task. Only the end of the task answers it. */
function waitFor(agent: string, task_id: string): ToolWait["wait"] {
  const may_answer = { scopes: [], principal: "", not_principal: null };
  return { kind: "task", subject: agent, deadline: null, may_answer, asked_as: task_id };
}
