import { SvcError } from "../../../bus/errors.ts";
import type { RequestTool, ResponseFormat, TurnOptions } from "../../../bus/protocol/turn-options.ts";
import { readAnswerSchema } from "../../../manifests/answer-schema.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import { withTools } from "../../../manifests/compile/with-tools.ts";
import type { ToolSpec } from "../../../manifests/registries.ts";
import { exitPlanModeName } from "../../../manifests/sections/permissions.ts";
import type { ToolUse } from "../../models/provider.ts";
import type { BoundTools } from "../../tools/source.ts";
import type { Tool } from "../../tools/tool.ts";

// Options that a request of the OpenAI protocol adds to its turn, above all client tools. Decision 95: the model may call client tools like
// the manifest's own, and controls match them by name. Such a call does not run on the server: it ends the reply, and the client sends its
// result.

/**
 * Returns the agent with the tools and the reply format of a request. Refuses with invalid_request if a tool has the name of a manifest
 * tool, or the reply schema is unsupported.
 */
export function agentFor(agent: CompiledAgent, options: TurnOptions): CompiledAgent {
  const { tools } = options;
  const own = new Set(agent.tools.map(({ name }) => name));
  for (const [at, { name }] of tools.entries())
    if (own.has(name) || name === exitPlanModeName)
      throw invalid(["tools", at], `${name} is the name of a tool of the manifest`);
  const formed = options.response_format === null ? agent : withFormat(agent, options.response_format);
  return tools.length === 0 ? formed : withTools(formed, tools.map(specOf));
}

/** True if the agent has the tools that the caller's `tool_choice` requires. */
export function hasChosen({ tools }: CompiledAgent, { tool_choice: choice }: TurnOptions): boolean {
  if (choice === "required") return tools.length > 0;
  return typeof choice !== "object" || choice === null || tools.some(({ name }) => name === choice.name);
}

/** Returns the refusal of a `tool_choice` whose tool is missing. */
export function noChosen({ tool_choice: choice }: TurnOptions): SvcError {
  const named = typeof choice === "object" && choice !== null;
  return invalid(["tool_choice"], named ? `no tool is called ${choice.name}` : "there are no tools");
}

/** Returns the agent with the reply format of a request. An output schema of the manifest takes precedence. */
function withFormat(agent: CompiledAgent, format: ResponseFormat): CompiledAgent {
  if (agent.outputSchema !== null) return agent;
  if (agent.manifest.spec.pattern === "groupchat")
    throw new SvcError("unsupported_parameter", { subject: "response_format" });
  const schema = format.type === "json_object" ? { type: "object" } : format.schema;
  const outputSchema = readAnswerSchema(schema, (at, says) => {
    throw invalid(
      ["response_format", ...(format.type === "json_schema" ? ["json_schema", "schema"] : []), ...at],
      says,
    );
  });
  return { ...agent, outputSchema };
}

/** Returns the tool parameters of a model call. The caller's `tool_choice` holds for the first step only; "none" holds for all. */
export function toolUse(options: TurnOptions, isFirst: boolean): ToolUse | null {
  const { tool_choice, parallel_tool_calls } = options;
  const choice = isFirst || tool_choice === "none" ? tool_choice : null;
  return choice === null && parallel_tool_calls === null ? null : { tool_choice: choice, parallel_tool_calls };
}

/** True if the request defines the tool. */
export function isOfRequest({ requestTools }: CompiledAgent, name: string): boolean {
  return requestTools?.has(name) ?? false;
}

/** Adds the request's tools to the tools of a run. */
export function withRequestTools(bound: BoundTools, { tools, requestTools }: CompiledAgent): BoundTools {
  if (requestTools === undefined) return bound;
  const all = new Map(bound);
  for (const spec of tools)
    if (requestTools.has(spec.name)) all.set(spec.name, { ...spec, transport: "client", timeoutMs: 0, execute });
  return all;
}

const execute: Tool["execute"] = () => {
  throw new Error("a tool of the client does not run on the server");
};

/** Classifies a client tool by the strictest effect and risk, because its real ones are unknown. */
function specOf({ name, description, parameters, strict }: RequestTool): ToolSpec {
  return {
    name,
    description,
    parameters: anyArguments,
    shownParameters: parameters,
    effect: "once",
    risk: "speaks",
    workspace: false,
    ...(strict !== null && { strict }),
  };
}

/** Accepts any arguments. The client validates them itself: svc compiles no schema of unknown origin. */
const anyArguments = { type: "object" };

function invalid(path: readonly (string | number)[], msg: string): SvcError {
  return new SvcError("invalid_request", { detail: [{ loc: ["body", ...path], msg, type: "value_error" }] });
}
