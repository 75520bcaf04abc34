import { taskSuffix, threadAddress } from "../../../bus/address.ts";
import { orderedId, type Timer } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { SubmitTurn } from "../../../bus/protocol/run.ts";
import type { TaskOutcome } from "../../../bus/protocol/task.ts";
import { taskState } from "../../../storage/tables/task-waits.ts";
import { type ToolResult, type ToolWait, toolError } from "../../tools/tool.ts";
import type { RunContext } from "../context/run-context.ts";
import { taskNamesOf } from "../context/run-pipeline.ts";
import type { AskedTask, TaskFamily } from "../context/task-family.ts";
import { startBeside } from "./background-tasks.ts";
import { mayHaveStarted, refusedStart, sharedBudgets, startTask, stopTask } from "./task-start.ts";
import { depthOf, taskTurn } from "./task-turn.ts";
import { closeWorktree, openWorktree } from "./worktree.ts";

// Tasks that a run delegates to other agents (decision 99: tasks are runs on hidden threads). Clients can read such a thread and
// change nothing.
// A task spends from the stored budgets of the runs above it (billing/tree-budget.ts), and reports its end to its parent. A task that
// waits for an answer is suspended. The call in the parent run then waits like for any other answer, and the parent is suspended
// too. A task that resumes says so to its parent, which resumes to wait for it.

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
  /** True if the outcome of the start is unknown: each check stops the task. */
  isStopped: boolean;
}

type HowLeft = TaskOutcome | "aside";

/** The tasks of one run. */
export class Tasks implements TaskFamily {
  readonly #runContext: RunContext;
  readonly #atWork = new Map<string, AtWork>();
  /** Ids of tasks that have not ended, working or suspended. */
  readonly #open = new Set<string>();
  #changed = Promise.withResolvers<void>();

  /** `runContext` is that of the agent that the caller asked. */
  constructor(runContext: RunContext) {
    this.#runContext = runContext;
    runContext.cancellation.onCancel(() => this.#wake());
    for (const { kind, state, asked_as } of runContext.spec.resumed?.waits ?? [])
      if (kind === "task" && state === "open" && asked_as !== null) this.#open.add(asked_as);
  }

  async run(
    { agent, prompt, call_id, by, worktree, background }: AskedTask,
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
      return startBeside(this.#runContext, { agent, prompt, worktree }, names, background.tasks_max, signal);
    }
    const names = this.#namesFor(call_id);
    const { task_id } = names;
    const { tenant_id } = spec.principal;
    const refused = worktree ? await openWorktree(this.#runContext, task_id) : null;
    if (refused !== null) return refused;
    const thread_id = threadAddress(tenant_id, taskSuffix(task_id)).key;
    this.#tell("subagent_start", { agent, background: false, task_id, thread_id }, signal);
    try {
      const shared = await sharedBudgets(this.#runContext);
      const turn = taskTurn(this.#runContext, { agent, prompt }, { ...names, agents }, shared, null);
      const left = await this.#handOut(turn, task_id, signal);
      return left === "aside" ? { wait: waitFor(agent, task_id) } : this.#came(task_id, agent, left, signal);
    } catch (error) {
      await closeWorktree(this.#runContext, task_id).catch(() => "");
      this.#left(task_id, lost);
      this.#tell("subagent_end", { agent, outcome: "error" }, signal);
      return refusedStart(agent, error);
    }
  }

  async rejoin(callId: string, agent: string, signal: AbortSignal): Promise<ToolResult | ToolWait | null> {
    const { task_id } = this.#namesFor(callId);
    const state = await taskState(this.#runContext.store, task_id);
    if (state === null) return null;
    if (typeof state === "object") return this.#came(task_id, agent, state, signal);
    this.#open.add(task_id);
    if (state === "running") this.#begin(task_id);
    return { wait: waitFor(agent, task_id) };
  }

  async result(taskId: string, agent: string, signal: AbortSignal): Promise<ToolResult> {
    const state = await taskState(this.#runContext.store, taskId);
    return this.#came(taskId, agent, state === null || typeof state === "string" ? lost : state, signal);
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
    void stopTask(this.#runContext, taskId).catch(() => {});
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

  resumed(taskId: string): void {
    if (!this.#open.has(taskId)) throw new SvcError("actor_lost");
    this.#begin(taskId);
  }

  /** Returns the ids for a task. Those of a durable run derive from the call, so that the call finds its task again after a crash. */
  #namesFor(callId: string): { readonly task_id: string; readonly run_id: string } {
    const { spec, deps } = this.#runContext;
    if (this.#runContext.durableRun !== null) return taskNamesOf(spec.keyedAs, callId);
    return { task_id: deps.env.id().slice(0, 16), run_id: orderedId(deps.env) };
  }

  async #handOut(turn: SubmitTurn, task_id: string, signal: AbortSignal): Promise<HowLeft> {
    this.#open.add(task_id);
    const work = this.#begin(task_id, false);
    try {
      await startTask(this.#runContext, turn);
    } catch (error) {
      if (!mayHaveStarted(error)) throw error;
      // The call waits for the end of the task, because its usage counts.
      work.isStopped = true;
    }
    this.#look(task_id, work, false);
    if (signal.aborted || work.isStopped) this.stop(task_id);
    else signal.addEventListener("abort", () => this.stop(task_id), { once: true });
    return work.left;
  }

  #begin(taskId: string, isLookedFor = true): AtWork {
    const known = this.#atWork.get(taskId);
    if (known !== undefined) return known;
    const { promise: left, resolve: leave } = Promise.withResolvers<HowLeft>();
    const work: AtWork = { left, leave, timer: null, isStopped: false };
    this.#atWork.set(taskId, work);
    if (isLookedFor) this.#look(taskId, work, false);
    return work;
  }

  /** Checks a working task at intervals: its messages may get lost, and so may the task. */
  #look(taskId: string, work: AtWork, wasMissed: boolean): void {
    if (this.#atWork.get(taskId) !== work) return;
    work.timer = this.#runContext.deps.env.timer(lookMs, () => {
      if (work.isStopped) this.stop(taskId);
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
    work.leave(how);
    this.#wake();
  }

  /** Returns the result of a task. The run takes over its usage and its approvals. */
  async #came(
    taskId: string,
    agent: string,
    { ok, text, approvals, usage, taint = [] }: TaskOutcome,
    signal: AbortSignal,
  ): Promise<ToolResult> {
    const { run } = this.#runContext;
    const { meter } = this.#runContext.billing;
    for (const id of approvals) run.approvals = (run.approvals ?? new Set()).add(id);
    if (usage !== null) meter.addTask(usage);
    this.#tell("subagent_end", { agent, outcome: ok ? "ok" : "error" }, signal);
    const work = await closeWorktree(this.#runContext, taskId);
    const answer = ok ? { text: text + work } : toolError("provider_error", text + work);
    return { ...answer, ...(taint.length > 0 && { taint }) };
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
