import { list, text } from "../fields/fields.ts";
import { defineSection, type Refuse, type SpecOf } from "../fields/section.ts";
import type { Registries, ToolSpec } from "../registries.ts";

const fields = {
  tools: list("Built-in tools that the model may call.", text("Name of a tool.", { maxLength: 128 })),
};

type Spec = SpecOf<typeof fields>;

/** What the model is told of. */
interface CompiledTools {
  /** Bound tools in the order in which the model is told of them. */
  readonly tools: readonly ToolSpec[];
}

export const tools = defineSection({
  fields,
  compile: (_spec: Spec, context): CompiledTools => ({ tools: context.tools }),
});

/** The named tools in their order, each once. */
export function bindTools(spec: Spec, { tools: known }: Registries, refuse: Refuse): ToolSpec[] {
  const bound = new Map<string, ToolSpec>();
  for (const [at, name] of spec.tools.entries()) {
    const tool = known.get(name);
    if (tool === undefined) refuse(["spec", "tools", at], `names the tool ${name}, which is not there`, "unresolved");
    else bound.set(name, tool);
  }
  return [...bound.values()];
}
