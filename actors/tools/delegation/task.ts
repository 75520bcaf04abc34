import { taskResultToolName, taskToolName } from "../../../manifests/sections/delegation.ts";
import type { ToolSource } from "../source.ts";
import type { Tool, ToolContext, WaitOutcome } from "../tool.ts";

/** The max duration of a run. */
const timeoutMs = 3_600_000;
/** Max time for a lookup in the store. */
const lookMs = 30_000;

/** The source of the task tools. Each agent has its own, because its manifest lists the agents that it may call. */
export const delegationSource: ToolSource = {
  name: "delegation",
  offers: [],
  resolve(name, agent) {
    if (name !== taskToolName && name !== taskResultToolName) return undefined;
    const spec = agent.manifest.spec.delegation === null ? undefined : agent.tools.find((tool) => tool.name === name);
    if (spec === undefined) return undefined;
    return (name === taskToolName ? { ...spec, ...task } : { ...spec, ...taskResult }) as Tool;
  },
};

const task = {
  needs: "thread" as const,
  timeoutMs,
  execute: (args: AskedTask, context: ToolContext) => context.delegate(args),
  resume: ({ agent }: AskedTask, outcome: WaitOutcome, context: ToolContext) => context.delegated(agent, outcome),
};

const taskResult = {
  needs: "thread" as const,
  timeoutMs: lookMs,
  execute: ({ task_id, wait_seconds = 0 }: AskedResult, context: ToolContext) =>
    context.taskResult(task_id, wait_seconds),
  // The requested wait is over, so only look up the result.
  resume: ({ task_id }: AskedResult, _outcome: WaitOutcome, context: ToolContext) => context.taskResult(task_id, 0),
};

/** Arguments of the task tool. */
interface AskedTask {
  readonly agent: string;
  readonly prompt: string;
  readonly background?: boolean;
}

/** Arguments of the tool that asks for a background task's result. */
interface AskedResult {
  readonly task_id: string;
  readonly wait_seconds?: number;
}
