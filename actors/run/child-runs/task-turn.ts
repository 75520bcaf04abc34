import { taskSuffix } from "../../../bus/address.ts";
import type { SubmitTurn } from "../../../bus/protocol/run.ts";
import type { BackgroundTask, SharedBudgets } from "../../../bus/protocol/task.ts";
import { allowHostsOf } from "../context/allowed-hosts.ts";
import type { RunContext } from "../context/run-context.ts";
import type { AskedTask } from "../context/task-family.ts";

/** Ids of a task, assigned before its start. */
export interface TaskNames {
  readonly run_id: string;
  readonly task_id: string;
  /** Names of the agents above the task. */
  readonly agents: readonly string[];
}

/** Returns the number of nested tasks down to this run. */
export function depthOf({ spec }: RunContext): number {
  return spec.parent?.depth ?? 0;
}

/** Returns the max milliseconds for which a task of the run may be active. */
export function activeMs({ billing: { budget }, deps }: RunContext): number {
  return Math.max(0, Math.round(budget.deadline - deps.env.monotonic()));
}

/** Returns the turn of a task. It has the caller's principal and no message of the thread. */
export function taskTurn(
  runContext: RunContext,
  { agent, prompt }: Pick<AskedTask, "agent" | "prompt">,
  { run_id, task_id, agents }: TaskNames,
  shared: SharedBudgets,
  background: Omit<BackgroundTask, keyof SharedBudgets> | null,
): SubmitTurn {
  const { spec, eventLog, attended, deps, askedOn } = runContext;
  const { parent } = spec;
  const allowHosts = allowHostsOf(runContext);
  const taint = runContext.run.taint.sources;
  return {
    run_id,
    surface: "task",
    principal: spec.principal,
    request_id: spec.request_id,
    manifest: agent,
    messages: [{ role: "user", content: prompt }],
    thread_suffix: taskSuffix(task_id),
    model: null,
    template: null,
    template_args: [],
    max_tokens: null,
    temperature: null,
    include_usage: false,
    response: null,
    idempotency: null,
    lease: null,
    channel: { node: deps.bus.node, id: 0 },
    hops: spec.hops + 1,
    ...(deps.tracer !== null && { trace: spec.trace ?? null }),
    ...(spec.evaluation !== null && { evaluation: spec.evaluation }),
    parent: {
      run_id: spec.run_id,
      suffix: spec.thread_suffix ?? "",
      task_id,
      root_thread_id: parent?.root_thread_id ?? eventLog.threadId,
      root_key: parent?.root_key ?? spec.thread_key,
      root_run_id: parent?.root_run_id ?? spec.run_id,
      attended,
      heard: askedOn !== null,
      deadline: runContext.billing.deadline,
      agents,
      ...(allowHosts.length > 0 && { allow_hosts: allowHosts }),
      ...(taint.length > 0 && { taint }),
      depth: depthOf(runContext) + 1,
      ...(background === null ? { shared } : { background: { ...shared, ...background } }),
      ...(background === null && runContext.durableRun !== null && { durable: { active_ms: activeMs(runContext) } }),
      ...((background !== null || parent?.beside) && { beside: true as const }),
    },
  };
}
