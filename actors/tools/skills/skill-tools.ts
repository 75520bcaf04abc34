import { cutText } from "../../../bus/cut-text.ts";
import { SvcError } from "../../../bus/errors.ts";
import { type CatalogSkill, type SkillCatalog, skillTaint } from "../../../governance/skills/catalog.ts";
import * as declared from "../../../manifests/sections/skill-tools.ts";
import { type Tool, type ToolContext, type ToolResult, toolError } from "../tool.ts";

// The tools that read skills.

/** Max time of a call: files may come from an object store. */
const timeoutMs = 30_000;
/** Max characters of a list, of a description in it, and of a file. */
const listCharsMax = 48_000;
const describedCharsMax = 200;
const fileCharsMax = 200_000;

interface Named {
  readonly name: string;
}

export const listSkills: Tool = {
  ...declared.listSkills,
  timeoutMs,
  async execute(_args: object, { skills }: ToolContext): Promise<ToolResult> {
    const { skills: all } = await skills.catalog();
    const active = skills.active();
    const lines: string[] = [];
    let chars = 0;
    let left = 0;
    const shown = invocable(all);
    for (const { name, description } of shown) {
      const mark = active.has(name) ? " (active)" : "";
      const line = `- ${name}${mark}: ${cutText(description.replaceAll(/\s+/g, " "), describedCharsMax)}`;
      if (chars + line.length > listCharsMax) left++;
      else lines.push(line);
      chars += line.length;
    }
    if (lines.length === 0) return { text: "There are no skills." };
    if (left > 0) lines.push(`and ${left} more`);
    return withTaint({ text: lines.join("\n") }, shown);
  },
};

export const activateSkill: Tool = {
  ...declared.activateSkill,
  timeoutMs,
  async execute({ name }: Named, { skills }: ToolContext): Promise<ToolResult> {
    const skill = (await skills.catalog()).skills.get(name);
    if (skill === undefined || !skill.head.model_invocable) {
      skills.record("activate", name, null);
      return unknown(name);
    }
    return orCorrupt(async () => {
      const body = await skills.body(skill);
      skills.record("activate", name, skill);
      return withTaint({ text: skills.activation(skill, body, filesText(skill)) }, [skill]);
    });
  },
};

export const deactivateSkill: Tool = {
  ...declared.deactivateSkill,
  timeoutMs,
  async execute({ name }: Named, { skills }: ToolContext): Promise<ToolResult> {
    const skill = (await skills.catalog()).skills.get(name);
    const isActive = skills.active().has(name);
    if (skill === undefined && !isActive) {
      skills.record("deactivate", name, null);
      return unknown(name);
    }
    if (!isActive) return { text: `The skill ${name} is not active.` };
    skills.record("deactivate", name, skill ?? null);
    return { text: skills.deactivation(name) };
  },
};

export const readSkillFile: Tool = {
  ...declared.readSkillFile,
  timeoutMs,
  async execute({ name, path }: Named & { readonly path: string }, { skills }: ToolContext): Promise<ToolResult> {
    const skill = (await skills.catalog()).skills.get(name);
    if (skill === undefined) return unknown(name);
    return orCorrupt(async () => {
      const file = await skills.file(skill, path);
      if (file === null) return toolError("not_found", `${name} has no file ${path}. ${filesText(skill)}`);
      if (file.isBinary)
        return { text: `${path} is binary (${file.content.length} characters of base64), and not shown.` };
      const cut = file.content.length > fileCharsMax ? `\n[cut: it had ${file.content.length} characters]` : "";
      return withTaint({ text: `${file.content.slice(0, fileCharsMax).toWellFormed()}${cut}` }, [skill]);
    });
  },
};

function invocable(all: SkillCatalog["skills"]): CatalogSkill[] {
  return [...all.values()].filter(({ head }) => head.model_invocable);
}

/** Marks a text that quotes skills. */
function withTaint(result: ToolResult, quoted: readonly CatalogSkill[]): ToolResult {
  const taint = skillTaint(quoted);
  return taint.length === 0 ? result : { ...result, taint };
}

function filesText({ name, files }: CatalogSkill): string {
  const others = files.map(({ path }) => path).filter((path) => path !== "SKILL.md");
  if (others.length === 0) return "It has no other files.";
  const shown = others.slice(0, 100).join(", ");
  return `Its files, for read_skill_file of ${name}: ${shown}${others.length > 100 ? ", …" : ""}`;
}

function unknown(name: string): ToolResult {
  return toolError("not_found", `unknown_skill: there is no skill ${name}; list_skills names all`);
}

async function orCorrupt(work: () => Promise<ToolResult>): Promise<ToolResult> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof SvcError) return toolError("internal", `the skill cannot be read: ${error.code}`);
    throw error;
  }
}
