import { taskToolName } from "../../../manifests/sections/delegation.ts";
import type { ToolSource } from "../source.ts";
import type { Tool, ToolContext, WaitOutcome } from "../tool.ts";

/** The longest that a run may last. */
const timeoutMs = 3_600_000;

/** Where agents get the tool that hands tasks to others: each its own, as its manifest says to whom. */
export const delegationSource: ToolSource = {
  name: "delegation",
  offers: [],
  resolve(name, agent) {
    if (name !== taskToolName) return undefined;
    const spec = agent.manifest.spec.delegation === null ? undefined : agent.tools.find((tool) => tool.name === name);
    if (spec === undefined) return undefined;
    return {
      ...spec,
      timeoutMs,
      execute: (args: AskedTask, context: ToolContext) => context.delegate(args),
      resume: ({ agent }: AskedTask, outcome: WaitOutcome, context: ToolContext) => context.delegated(agent, outcome),
    } as Tool;
  },
};

/** The arguments of a call. */
interface AskedTask {
  readonly agent: string;
  readonly prompt: string;
}
