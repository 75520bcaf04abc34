import { builtInTools, sectionToolSpecs } from "../../actors/tools/registry/built-in.ts";
import type { Tool } from "../../actors/tools/tool.ts";
import type { ToolSpec } from "../../manifests/registries.ts";
import { code, table } from "./markdown.ts";

/** The parts of an argument's schema that the page shows. */
interface Argument {
  readonly type?: string;
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly items?: Argument;
}

/** The text of docs/tools.md. */
export function toolsPage(): string {
  return `# Tools

Generated from \`actors/tools/\` by \`npm run generate\`. A manifest lists the tools of its agent in \`spec.tools\`. The tools at the end of this
page belong to other sections of the manifest. Plugins add more: [plugins.md](plugins.md). Clients carry out the tools of \`spec.client_tools\`,
external consumers those of \`spec.queues\`: [asking.md](asking.md), [queues.md](queues.md).

The effect decides about an interrupted call: \`read\` and \`idempotent\` calls are repeated; for a \`once\` call with an unknown outcome a person
decides. Approvals and permission modes use the risk. The texts in the blocks are the descriptions that the model reads.

${builtInTools.map(sectionOf).join("\n\n")}

# Tools of sections

${sectionToolSpecs.map(sectionOf).join("\n\n")}
`;
}

function sectionOf({
  name,
  description,
  effect,
  risk,
  timeoutMs,
  workspace,
  parameters,
}: ToolSpec & Pick<Tool, "timeoutMs">): string {
  const { properties = {}, required = [] } = parameters as {
    properties?: Record<string, Argument>;
    required?: readonly string[];
  };
  const rows = Object.entries(properties).map(([key, argument]) => [
    code(key),
    typeOf(argument),
    required.includes(key) ? "yes" : "",
    argument.description ?? "",
  ]);
  const where = workspace ? ", on files of the thread's workspace" : "";
  return [
    `## ${name}`,
    `\`\`\`text\n${wrapped(description)}\n\`\`\``,
    `Effect \`${effect}\`, risk \`${risk}\`, at most ${timeoutMs / 1_000} s${where}.`,
    rows.length === 0 ? "It takes no arguments." : table(["Argument", "Type", "Required", "Meaning"], rows),
  ].join("\n\n");
}

function typeOf({ type, enum: values, items }: Argument): string {
  if (values !== undefined) return values.join(", ");
  if (type === "array") return `list of ${items === undefined ? "anything" : typeOf(items)}`;
  return type ?? "any";
}

/** The description for the model, in lines of a page. */
function wrapped(text: string): string {
  return text.replace(/(.{1,110})(?: |$)/g, "$1\n").trimEnd();
}
