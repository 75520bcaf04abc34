import { Type } from "../../bus/type.ts";
import type { ToolSpec } from "../registries.ts";

// The declarations of the tools of skills.

const closed = { additionalProperties: false };
const name = Type.String({ minLength: 1, maxLength: 64, description: "Name of the skill." });
const files = Type.Object(
  {},
  {
    additionalProperties: Type.String(),
    description:
      "The files of the skill by path, SKILL.md among them: front matter with name and description, then the instructions.",
    minProperties: 1,
    maxProperties: 200,
  },
);
const reason = Type.String({ maxLength: 2000, description: "Why, for the person who reviews it." });
const library = Type.Optional(
  Type.Union([Type.Literal("org"), Type.Literal("personal")], {
    description: "The organization's library, which is the default, or the caller's own.",
  }),
);

function tool(name: string, description: string, parameters: object, how: Pick<ToolSpec, "effect" | "risk">): ToolSpec {
  return { name, description, parameters: { ...parameters }, ...how, workspace: false };
}

const reads = { effect: "read", risk: "reads" } as const;
/** A skill that is activated twice is active once. */
const switches = { effect: "idempotent", risk: "reads" } as const;
const writes = { effect: "once", risk: "writes" } as const;

export const listSkills = tool(
  "list_skills",
  "Lists the skills: instructions for special tasks. Activate one before you do a task that it describes.",
  Type.Object({}, closed),
  reads,
);
export const activateSkill = tool(
  "activate_skill",
  "Loads the instructions of a skill and keeps them in force for the rest of the conversation.",
  Type.Object({ name }, closed),
  switches,
);
export const deactivateSkill = tool(
  "deactivate_skill",
  "Ends a skill: its instructions no longer apply.",
  Type.Object({ name }, closed),
  switches,
);
export const readSkillFile = tool(
  "read_skill_file",
  "Reads a file of a skill, such as a reference that its instructions name.",
  Type.Object(
    { name, path: Type.String({ minLength: 1, maxLength: 512, description: "Path of the file in the skill." }) },
    closed,
  ),
  reads,
);
export const createSkill = tool(
  "create_skill",
  "Saves a new skill as a draft for review.",
  Type.Object({ files, reason: Type.Optional(reason), library }, closed),
  writes,
);
export const updateSkill = tool(
  "update_skill",
  "Saves a new version of a skill as a draft for review. Give all files, those that do not change too.",
  Type.Object({ name, files, reason: Type.Optional(reason), library }, closed),
  writes,
);
export const submitSkillFeedback = tool(
  "submit_skill_feedback",
  "Tells the people who maintain a skill what was wrong with it, or what would improve it.",
  Type.Object(
    {
      name,
      body: Type.String({ minLength: 1, maxLength: 8000, description: "What happened, and what to change." }),
      suggested_patch: Type.Optional(Type.String({ maxLength: 32_000, description: "The change as text." })),
    },
    closed,
  ),
  writes,
);

/** The tools that read skills. */
export const readingTools: readonly ToolSpec[] = [listSkills, activateSkill, deactivateSkill, readSkillFile];
/** The tools that write skills. */
export const authoringTools: readonly ToolSpec[] = [createSkill, updateSkill, submitSkillFeedback];
