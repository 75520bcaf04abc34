import { refuseArgsSchema } from "../fields/arguments-schema.ts";
import { closed, fatal, list, nullable, text, toolName } from "../fields/fields.ts";
import { argsSchema, credential, refuseSecret, timeoutMs, toldToTheModel, urlText } from "../fields/remote.ts";
import { type Rule, unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { matchGlob } from "../glob.ts";
import type { ToolSpec } from "../registries.ts";
import { type NetworkSpec, urlRules } from "./network.ts";
import { notInMulti, type PatternSpec } from "./pattern.ts";

const fields = {
  containers: list(
    "Container images that run as tools, behind a gateway.",
    closed("One image.", {
      name: toolName("Its name."),
      description: toldToTheModel(),
      gateway_url: nullable(urlText("The gateway that runs it; null is SVC_CONTAINER_GATEWAY_URL.")),
      image: text("The image.", { maxLength: 512 }),
      container_tool_name: nullable(toolName("Name of the tool; null is container__<name>.")),
      timeout_ms: timeoutMs("Timeout of one call; null is 5 minutes."),
      auth: credential(),
      args_schema: argsSchema(),
      fatal: fatal(),
    }),
  ),
};

type Spec = SpecOf<typeof fields> & PatternSpec & NetworkSpec;

/** A tool that runs a container image. */
export type ContainerTool = ToolSpec & {
  readonly image: string;
  /** Null for the operator's gateway. */
  readonly url: string | null;
  /** A credential or its reference; null for none of the manifest. */
  readonly auth: string | null;
  readonly timeoutMs: number;
};

/** Arguments of a program without a schema. */
export const anyInput = { type: "object", properties: { input: { type: "string", description: "The input." } } };
/** Timeout of a program without one. */
export const programMs = 300_000;

const rules: readonly Rule<Spec>[] = [
  notInMulti("containers"),
  unique("containers", "name"),
  ...urlRules("containers", "gateway_url"),
];

export const containers = defineSection({
  fields,
  rules,
  binds(spec: Spec, { registries, refuse }) {
    const allowed = registries.targets?.allowedImages ?? [];
    return spec.containers.map((container, at) => {
      const loc = ["spec", "containers", at];
      const { gateway_url, image, args_schema } = container;
      refuseArgsSchema(args_schema, loc, refuse);
      if (gateway_url === null && allowed.length > 0 && !allowed.some((glob) => matchGlob(glob, image)))
        refuse([...loc, "image"], "is no image that SVC_SANDBOX_ALLOWED_IMAGES allows", "unresolved");
      return { loc, tool: compiled(container) };
    });
  },
  compile(spec: Spec, context) {
    for (const [at, { auth }] of spec.containers.entries())
      refuseSecret(auth, ["spec", "containers", at, "auth"], context);
    const tools = spec.containers.map(compiled);
    return { containers: new Map(tools.map((tool) => [tool.name, tool])) as ReadonlyMap<string, ContainerTool> };
  },
});

function compiled(container: Spec["containers"][number]): ContainerTool {
  const { name, description, gateway_url, image, container_tool_name, timeout_ms, auth, args_schema, fatal } =
    container;
  return {
    name: container_tool_name ?? `container__${name}`,
    description: description || `Runs the program ${name} in a container and returns its exit code and output.`,
    parameters: args_schema ?? anyInput,
    effect: "once",
    risk: "speaks",
    workspace: false,
    fatal,
    ...{ image, url: gateway_url, auth },
    timeoutMs: timeout_ms ?? programMs,
  };
}
