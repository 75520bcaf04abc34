import { taskToolName } from "../../../manifests/sections/delegation.ts";
import type { ToolSource } from "../source.ts";
import type { ToolContext } from "../tool.ts";

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
    const execute = (args: { agent: string; prompt: string }, context: ToolContext) => context.delegate(args);
    return {
      ...spec,
      timeoutMs,
      execute: execute as (args: never, context: ToolContext) => ReturnType<typeof execute>,
    };
  },
};
