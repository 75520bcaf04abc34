import { Type } from "../../bus/type.ts";
import { mapOf } from "../fields/fields.ts";
import { blank, isBlank, type Rule } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { matchGlob } from "../glob.ts";
import type { ToolSpec } from "../registries.ts";

const fields = {
  tool_guidance: mapOf(
    "A line for the system prompt by tool name or glob.",
    Type.String({
      minLength: 1,
      maxLength: 500,
      pattern: "^[^\\r\\n]+$",
      patternHelp: "must be one line",
    }),
  ),
};

/** The fields of this section in `spec`. */
export type ToolGuidanceSpec = SpecOf<typeof fields>;

const rules: readonly Rule<ToolGuidanceSpec>[] = [
  {
    says: blank,
    type: "too_short",
    broken: ({ tool_guidance }) =>
      Object.entries(tool_guidance).flatMap(([key, line]) => (isBlank(line) ? [["spec", "tool_guidance", key]] : [])),
  },
];

export const toolGuidance = defineSection({
  fields,
  rules,
  compile(spec: ToolGuidanceSpec, { tools, selectsNothing }) {
    for (const key of Object.keys(spec.tool_guidance))
      if (!tools.some(({ name }) => matchGlob(key, name))) selectsNothing(key, "tool_guidance");
    return null;
  },
});

/** Returns a heading and one line per distinct guidance, in the order of the bound tools; empty if none applies. */
export function toolGuidanceText(guidance: Readonly<Record<string, string>>, tools: readonly ToolSpec[]): string {
  const toolsByLine = new Map<string, Set<string>>();
  for (const { name } of tools) {
    for (const [key, line] of Object.entries(guidance)) {
      if (!matchGlob(key, name)) continue;
      const named = toolsByLine.get(line) ?? new Set();
      toolsByLine.set(line, named.add(name));
    }
  }
  const lines = [...toolsByLine].map(([line, named]) => `- ${[...named].join(", ")}: ${line}`);
  return lines.length === 0 ? "" : `## Tool guidance\n\n${lines.join("\n")}`;
}
