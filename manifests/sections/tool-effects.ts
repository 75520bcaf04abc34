import { Type } from "../../bus/type.ts";
import { choice, mapOf } from "../fields/fields.ts";
import type { Rule } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { matchGlob } from "../glob.ts";
import { toolEffects as effects, type ToolEffect, type ToolRisk, type ToolSpec, toolRisks } from "../registries.ts";

/** A manifest's declaration for a tool: its effect, or an object with effect, risk or both. */
type SaidOfTool = ToolEffect | { readonly effect?: ToolEffect; readonly risk?: ToolRisk };

const fields = {
  tool_effects: mapOf(
    "Effects of a tool's calls that replace the declared ones, by tool name or glob with * and ?. A name wins over a glob, a longer glob over a shorter one.",
    Type.Unsafe<SaidOfTool>({
      type: ["object", "string"],
      description: "The effect, or an object with effect, risk or both.",
      pattern: `^(${effects.join("|")})$`,
      patternHelp: `must be one of ${effects.join(", ")}`,
      properties: {
        effect: choice("How often a call may run: read changes nothing, idempotent may run again.", effects),
        risk: choice("The highest risk of a call.", toolRisks),
      },
      additionalProperties: false,
    }),
  ),
};

/** The fields of this section in `spec`. */
export type ToolEffectsSpec = SpecOf<typeof fields>;

const rules: readonly Rule<ToolEffectsSpec>[] = [
  {
    says: "names neither an effect nor a risk",
    type: "missing",
    broken: ({ tool_effects }) =>
      Object.entries(tool_effects).flatMap(([glob, said]) =>
        typeof said === "object" && said.effect === undefined && said.risk === undefined
          ? [["spec", "tool_effects", glob]]
          : [],
      ),
  },
];

export const toolEffects = defineSection({
  fields,
  rules,
  compile({ tool_effects }: ToolEffectsSpec, { tools, selectsNothing }) {
    for (const glob of Object.keys(tool_effects))
      if (!tools.some(({ name }) => matchGlob(glob, name))) selectsNothing(glob, "tool_effect");
    return null;
  },
});

/** Returns the tool with the manifest's effect and risk. */
export function asDeclared(tool: ToolSpec, { tool_effects }: ToolEffectsSpec): ToolSpec {
  const said = saidOf(tool.name, tool_effects);
  if (said === undefined) return tool;
  const { effect = tool.effect, risk = tool.risk } = typeof said === "string" ? { effect: said } : said;
  const { name, description, parameters, workspace } = tool;
  return { ...tool, name, description, parameters, workspace, effect, risk };
}

function saidOf(name: string, said: ToolEffectsSpec["tool_effects"]): SaidOfTool | undefined {
  if (Object.hasOwn(said, name)) return said[name];
  // Independent of the order of keys, which not every store preserves.
  const globs = Object.keys(said).filter((glob) => matchGlob(glob, name));
  const [glob] = globs.sort((a, b) => b.length - a.length || (a < b ? -1 : 1));
  return glob === undefined ? undefined : said[glob];
}
