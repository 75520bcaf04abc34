import { meant } from "../../bus/nearest.ts";
import { list, text } from "../fields/fields.ts";
import { type Rule, when } from "../fields/rules.ts";
import { defineSection, type Refuse, type SpecOf } from "../fields/section.ts";
import type { Registries, ToolSpec } from "../registries.ts";
import { type ArtifactsSpec, artifactTools } from "./artifacts.ts";
import { type DelegationSpec, delegationTools } from "./delegation.ts";
import type { PatternSpec } from "./pattern.ts";
import { type SkillsSpec, skillTools } from "./skills.ts";
import { asDeclared, type ToolEffectsSpec } from "./tool-effects.ts";

const fields = {
  tools: list("Built-in tools that the model may call.", text("Name of a tool.", { maxLength: 128 }), {
    maxItems: 256,
  }),
};

type Spec = SpecOf<typeof fields>;

const rules: readonly Rule<Spec & PatternSpec>[] = [
  {
    says: "does not go with the pattern router, whose sub-agents answer with tools of their own",
    broken: (spec) => when(spec.pattern === "router" && spec.tools.length > 0, "spec.tools"),
  },
];

/** The compiled part of this section. */
interface CompiledTools {
  /** Bound tools, in the order of the prompt. */
  readonly tools: readonly ToolSpec[];
}

export const tools = defineSection({
  fields,
  rules,
  compile: (_spec: Spec & PatternSpec, context): CompiledTools => ({ tools: context.tools }),
});

/** Tools that a pattern adds to those of spec.tools. */
const toolsOfPattern: ReadonlyMap<string, readonly string[]> = new Map([
  ["deep", ["plan_create", "plan_update_step", "plan_get"]],
]);

/** The fields of `spec` that bind tools beside those of spec.tools. */
export type KeptToolsSpec = DelegationSpec & ArtifactsSpec & SkillsSpec & PatternSpec;

/** Names of the tools that the pattern and other sections add. Their instructions count on them. */
export function keptTools(spec: KeptToolsSpec): ReadonlySet<string> {
  const added = [...delegationTools(spec), ...artifactTools(spec), ...skillTools(spec)].map(({ name }) => name);
  return new Set([...(toolsOfPattern.get(spec.pattern) ?? []), ...added]);
}

/**
 * Returns the named tools in their order without duplicates, then those of the pattern, of spec.delegation, of spec.artifacts and of spec.skills. The
 * manifest's tool_effects are applied.
 */
export function bindTools(
  spec: Spec & ToolEffectsSpec & KeptToolsSpec,
  { tools: known }: Registries,
  refuse: Refuse,
): ToolSpec[] {
  const bound = new Map<string, ToolSpec>();
  for (const [at, name] of spec.tools.entries()) {
    const tool = known.get(name);
    if (tool === undefined)
      refuse(
        ["spec", "tools", at],
        `names the tool ${name}, which does not exist${meant(name, [...known.keys()])}`,
        "unresolved",
      );
    else bound.set(name, asDeclared(tool, spec));
  }
  for (const name of toolsOfPattern.get(spec.pattern) ?? []) {
    const tool = known.get(name);
    if (tool !== undefined) bound.set(name, asDeclared(tool, spec));
  }
  for (const tool of delegationTools(spec)) {
    if (bound.has(tool.name)) refuse(["spec", "delegation"], `adds a second tool ${tool.name}`, "conflict");
    bound.set(tool.name, asDeclared(tool, spec));
  }
  for (const tool of [...artifactTools(spec), ...skillTools(spec)]) bound.set(tool.name, asDeclared(tool, spec));
  return [...bound.values()];
}
