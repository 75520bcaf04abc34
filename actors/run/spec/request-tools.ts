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

// What a request of the OpenAI protocol brings along for its turn. Above all tools of its client (decision 95): the model is offered them
// beside the manifest's own, the controls of the manifest hold for them by their names, and a call of one is not made here: it ends the
// answer, and the client brings its result.

/**
 * The agent with what a request brings along. Refuses with invalid_request where a name is one of the manifest's tools, where the choice
 * names a tool that is not there, and where the schema of the answer cannot be held.
 */
export function agentFor(agent: CompiledAgent, options: TurnOptions): CompiledAgent {
  const { tools, tool_choice: choice } = options;
  const own = new Set(agent.tools.map(({ name }) => name));
  for (const [at, { name }] of tools.entries())
    if (own.has(name) || name === exitPlanModeName)
      throw invalid(["tools", at], `${name} is the name of a tool of the manifest`);
  const isNamed = typeof choice === "object" && choice !== null;
  if (isNamed && !own.has(choice.name) && !tools.some(({ name }) => name === choice.name))
    throw invalid(["tool_choice"], `no tool is called ${choice.name}`);
  if (choice === "required" && own.size + tools.length === 0) throw invalid(["tool_choice"], "there are no tools");
  const formed = options.response_format === null ? agent : withFormat(agent, options.response_format);
  return tools.length === 0 ? formed : withTools(formed, tools.map(specOf));
}

/** The agent whose answers are like a request asks for. What the manifest asks for goes before. */
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

/** What a model call is told of its tools. What the caller wants called is called first; later steps are the model's own. */
export function toolUse(options: TurnOptions, isFirst: boolean): ToolUse | null {
  const { tool_choice, parallel_tool_calls } = options;
  const choice = isFirst || tool_choice === "none" ? tool_choice : null;
  return choice === null && parallel_tool_calls === null ? null : { tool_choice: choice, parallel_tool_calls };
}

/** Whether a tool is one of the request's. */
export function isOfRequest({ requestTools }: CompiledAgent, name: string): boolean {
  return requestTools?.has(name) ?? false;
}

/** The tools of a run with those of its request. */
export function withRequestTools(bound: BoundTools, { tools, requestTools }: CompiledAgent): BoundTools {
  if (requestTools === undefined) return bound;
  const all = new Map(bound);
  for (const spec of tools) if (requestTools.has(spec.name)) all.set(spec.name, { ...spec, timeoutMs: 0, execute });
  return all;
}

const execute: Tool["execute"] = () => {
  throw new Error("a tool of the client's is not run here");
};

/** Nothing is known of what a client does with a call: it is taken for the most that it could be. */
function specOf({ name, description, parameters, strict }: RequestTool): ToolSpec {
  return {
    name,
    description,
    parameters: anyArguments,
    told: parameters,
    effect: "once",
    risk: "speaks",
    workspace: false,
    ...(strict !== null && { strict }),
  };
}

/** A client holds arguments against its schema itself: a schema of unknown origin is compiled nowhere. */
const anyArguments = { type: "object" };

function invalid(path: readonly (string | number)[], msg: string): SvcError {
  return new SvcError("invalid_request", { detail: [{ loc: ["body", ...path], msg, type: "value_error" }] });
}
