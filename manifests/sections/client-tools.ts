import { Type } from "../../bus/type.ts";
import { refuseArgsSchema } from "../fields/arguments-schema.ts";
import { closed, fatal, list, nullable, optionalText, toolName } from "../fields/fields.ts";
import { unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { ToolSpec } from "../registries.ts";

const fields = {
  client_tools: list(
    "Tools that the client carries out: it receives a tool_request on POST /chat/stream, and answers with POST /chat/tool_result.",
    closed("One tool.", {
      name: toolName("Its name."),
      description: optionalText("Description for the model.", { maxLength: 4096 }),
      args_schema: nullable(
        Type.Unsafe<Record<string, unknown>>({
          type: "object",
          description: "JSON Schema of its arguments, an object. Null: one text, input.",
        }),
      ),
      timeout_seconds: Type.Unsafe<number | null>({
        type: ["number", "null"],
        description: "Time that the run waits. Null is the maximum.",
        exclusiveMinimum: 0,
        maximum: 3600,
        default: 120,
      }),
      fatal: fatal(),
    }),
  ),
};

type Spec = SpecOf<typeof fields>;

/** A tool that the client executes. */
export type ClientTool = ToolSpec & { readonly timeoutMs: number };

const timeoutSecondsMax = 3600;
const anyText = { type: "object", properties: { input: { type: "string" } } };

export const clientTools = defineSection({
  fields,
  rules: [unique("client_tools", "name")],
  binds: (spec: Spec, { refuse }) =>
    spec.client_tools.map((tool, at) => {
      const loc = ["spec", "client_tools", at];
      refuseArgsSchema(tool.args_schema, loc, refuse);
      return { loc, tool: compiled(tool) };
    }),
  compile: (spec: Spec) => ({
    clientTools: new Map(spec.client_tools.map((tool) => [tool.name, compiled(tool)])) as ReadonlyMap<
      string,
      ClientTool
    >,
  }),
});

/**
 * Assumes the strongest effect and risk, because the client's behavior is unknown, unless the manifest declares them
 * (decision 81).
 */
function compiled({
  name,
  description,
  args_schema,
  timeout_seconds,
  fatal,
}: Spec["client_tools"][number]): ClientTool {
  return {
    name,
    description,
    parameters: args_schema ?? anyText,
    effect: "once",
    risk: "speaks",
    workspace: false,
    timeoutMs: (timeout_seconds ?? timeoutSecondsMax) * 1000,
    fatal,
  };
}
