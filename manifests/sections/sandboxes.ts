import { refuseArgsSchema } from "../fields/arguments-schema.ts";
import { closed, fatal, list, nullable, optionalText, text, toolName } from "../fields/fields.ts";
import { argsSchema, timeoutMs, toldToTheModel } from "../fields/remote.ts";
import { type Rule, unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { ToolSpec } from "../registries.ts";
import { anyInput, programMs } from "./containers.ts";
import { notInMulti, type PatternSpec } from "./pattern.ts";

const fields = {
  sandboxes: list(
    "Sandboxes of the operator that run code.",
    closed("One sandbox.", {
      name: toolName("Its name."),
      binding: text("The operator's entry in SVC_SANDBOXES.", { maxLength: 512 }),
      description: toldToTheModel(),
      sandbox_tool_name: nullable(toolName("Name of the tool; null is sandbox__<name>.")),
      timeout_ms: timeoutMs("Timeout of one call; null is 5 minutes."),
      path_prefix: optionalText("Prefix of every path.", { maxLength: 2048 }),
      args_schema: argsSchema(),
      fatal: fatal(),
    }),
  ),
};

type Spec = SpecOf<typeof fields> & PatternSpec;

/** A tool that runs code in a sandbox of the operator. */
export type SandboxTool = ToolSpec & {
  readonly binding: string;
  /** Empty for any path. */
  readonly pathPrefix: string;
  readonly timeoutMs: number;
};

const rules: readonly Rule<Spec>[] = [notInMulti("sandboxes"), unique("sandboxes", "name")];

export const sandboxes = defineSection({
  fields,
  rules,
  binds(spec: Spec, { registries, tenantId, refuse }) {
    return spec.sandboxes.map((sandbox, at) => {
      const loc = ["spec", "sandboxes", at];
      refuseArgsSchema(sandbox.args_schema, loc, refuse);
      // The message is the same for a missing entry and for one of another tenant, so that it reveals nothing.
      if (registries.targets?.hasSandbox(sandbox.binding, tenantId) === false)
        refuse([...loc, "binding"], `names an unknown sandbox: ${sandbox.binding}`, "unresolved");
      return { loc, tool: compiled(sandbox) };
    });
  },
  compile(spec: Spec) {
    const tools = spec.sandboxes.map(compiled);
    return { sandboxes: new Map(tools.map((tool) => [tool.name, tool])) as ReadonlyMap<string, SandboxTool> };
  },
});

function compiled(sandbox: Spec["sandboxes"][number]): SandboxTool {
  const { name, binding, description, sandbox_tool_name, timeout_ms, path_prefix, args_schema, fatal } = sandbox;
  const below = path_prefix === "" ? "" : ` It is below ${path_prefix}.`;
  const path = {
    type: "string",
    minLength: 1,
    maxLength: 4096,
    description: `The path that the program works on.${below}`,
  };
  return {
    name: sandbox_tool_name ?? `sandbox__${name}`,
    description: description || `Runs the sandbox ${name} and returns its exit code and output.`,
    parameters: {
      type: "object",
      properties: { path, args: args_schema ?? anyInput },
      required: ["path"],
      additionalProperties: false,
    },
    effect: "once",
    risk: "speaks",
    workspace: false,
    fatal,
    ...{ binding, pathPrefix: path_prefix },
    timeoutMs: timeout_ms ?? programMs,
  };
}
