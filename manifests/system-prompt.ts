import { matchGlob } from "./glob.ts";
import { soulKey } from "./object-keys.ts";
import type { Manifest } from "./schema/manifest.ts";

const separator = "\n\n---\n\n";

/**
 * The system prompt: soul, base, inline and files, or system_md in their place; then append_system_md and the tool guidance.
 * Empty parts are left out. `texts` are by object key; `files` are the texts of system_prompt.files, in their order.
 */
export function assembleSystemPrompt(
  { spec }: Manifest,
  tenantId: string,
  texts: ReadonlyMap<string, string>,
  files: readonly string[],
  tools: readonly string[],
): string {
  const prompt = spec.system_prompt;
  const soul = prompt.soul ? (texts.get(soulKey(tenantId)) ?? "") : "";
  const parts = prompt.system_md === null ? [soul, prompt.base, prompt.inline, ...files] : [prompt.system_md];
  parts.push(prompt.append_system_md ?? "");
  if (prompt.include_tool_guidance) parts.push(toolGuidanceSection(spec.tool_guidance, tools));
  return parts.filter((part) => part.trim() !== "").join(separator);
}

/** The heading and a line for each different guidance, in the order in which the tools are bound; empty when none applies. */
function toolGuidanceSection(guidance: Readonly<Record<string, string>>, tools: readonly string[]): string {
  const toolsByLine = new Map<string, Set<string>>();
  for (const tool of tools) {
    for (const [key, line] of Object.entries(guidance)) {
      if (!matchGlob(key, tool)) continue;
      const named = toolsByLine.get(line) ?? new Set();
      toolsByLine.set(line, named.add(tool));
    }
  }
  const lines = [...toolsByLine].map(([line, named]) => `- ${[...named].join(", ")}: ${line}`);
  return lines.length === 0 ? "" : `## Tool guidance\n\n${lines.join("\n")}`;
}
