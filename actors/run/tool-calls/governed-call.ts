import { argumentsProblem } from "../../../governance/arguments-problem.ts";
import type { GovernedCall } from "../../../governance/controls/control.ts";
import type { ToolCall } from "../../../storage/tables/events.ts";
import type { Tool } from "../../tools/tool.ts";
import type { RunContext } from "../context/run-context.ts";
import { neverGivenUp, toolContext } from "./tool-execution.ts";

/** Returns a call as controls see it, with `args` as its current arguments. */
export function governedCall(runContext: RunContext, call: ToolCall, tool: Tool, args: unknown): GovernedCall {
  const { spec, deps } = runContext;
  return {
    tool: call.name,
    tool_call_id: call.id,
    asked: call.args,
    args,
    misfit: (other) => argumentsProblem(tool, other, deps.env),
    preview: async (standing) =>
      tool.preview ? tool.preview(standing as never, toolContext(runContext, call.id, neverGivenUp)) : null,
    agent: spec.agent,
    principal: spec.principal,
    taint: runContext.run.taint.sources,
    now: deps.env.monotonic(),
  };
}
