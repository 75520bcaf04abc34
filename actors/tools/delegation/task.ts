import { taskResultToolName, taskToolName } from "../../../manifests/sections/delegation.ts";
import type { ToolSource } from "../source.ts";
import type { Tool, ToolContext, WaitOutcome } from "../tool.ts";

/** The longest that a run may last. */
const timeoutMs = 3_600_000;
/** For what is asked of the store. */
const lookMs = 30_000;

/** Where agents get the tools that hand tasks to others: each its own, as its manifest says to whom. */
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
  timeoutMs,
  execute: (args: AskedTask, context: ToolContext) => context.delegate(args),
  resume: ({ agent }: AskedTask, outcome: WaitOutcome, context: ToolContext) => context.delegated(agent, outcome),
};

const taskResult = {
  timeoutMs: lookMs,
  execute: ({ task_id, wait_seconds = 0 }: AskedResult, context: ToolContext) =>
    context.taskResult(task_id, wait_seconds),
  // It was waited for as long as it was asked to be, whatever has come of it.
  resume: ({ task_id }: AskedResult, _outcome: WaitOutcome, context: ToolContext) => context.taskResult(task_id, 0),
};

/** The arguments of a call that hands out a task. */
interface AskedTask {
  readonly agent: string;
  readonly prompt: string;
  readonly background?: boolean;
}

/** The arguments of a call that asks for a task in the background. */
interface AskedResult {
  readonly task_id: string;
  readonly wait_seconds?: number;
}
