import { flag, list, nullable, objectKey, optionalText, section, text } from "../fields/fields.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { type ToolGuidanceSpec, toolGuidanceText } from "./tool-guidance.ts";

/** Max characters of one part of the system prompt. */
export const promptPartCharsMax = 200_000;

const part = { maxLength: promptPartCharsMax };

const fields = {
  system_prompt: section("Instructions for the model before the conversation.", {
    inline: optionalText("The agent's own instructions.", part),
    soul: flag("Puts the tenant's soul prompt first."),
    base: optionalText("Instructions before the inline ones.", part),
    files: list("Texts of the object store that come next.", objectKey("Object key.")),
    system_md: nullable(text("Replaces soul, base, inline and files.", { ...part, minLength: 0 })),
    append_system_md: nullable(text("Added after all of these.", { ...part, minLength: 0 })),
    include_tool_guidance: flag("Adds the lines of tool_guidance.", true),
  }),
};

type Spec = SpecOf<typeof fields> &
  ToolGuidanceSpec & { readonly governance: { readonly transparency_notice: boolean } };

/** The sentence of governance.transparency_notice for the model. */
const transparency =
  "You are an AI system. Say so when a conversation begins and whenever somebody asks, and never claim to be a person.";

/** The compiled part of this section. */
export interface CompiledSystemPrompt {
  /** Includes tool guidance; equal for every turn. `styledPrompt` adds the output style. */
  readonly systemPrompt: string;
}

/**
 * Joins soul, base, inline and files, or system_md instead of them; then append_system_md and the tool guidance. Empty
 * parts are left out.
 */
export const systemPrompt = defineSection({
  fields,
  compile(spec: Spec, { tools, soul, readText }): CompiledSystemPrompt {
    const prompt = spec.system_prompt;
    const readFiles = () => prompt.files.map((file, at) => readText(file, ["spec", "system_prompt", "files", at]));
    const parts =
      prompt.system_md === null
        ? [prompt.soul ? soul : "", prompt.base, prompt.inline, ...readFiles()]
        : [prompt.system_md];
    parts.push(prompt.append_system_md ?? "");
    if (spec.governance.transparency_notice) parts.push(transparency);
    if (prompt.include_tool_guidance) parts.push(toolGuidanceText(spec.tool_guidance, tools));
    return { systemPrompt: joinedParts(parts) };
  },
});

/** Joins the non-empty parts of a system prompt, separated by a rule. */
export function joinedParts(parts: readonly string[]): string {
  return parts.filter((text) => text.trim() !== "").join("\n\n---\n\n");
}
