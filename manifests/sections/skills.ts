import { Type } from "../../bus/type.ts";
import { choice, closed, flag, integer, list, optionalText, section, share, text } from "../fields/fields.ts";
import { type Rule, unique, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { ToolSpec } from "../registries.ts";
import { type ApprovalsSpec, gatesEveryCall } from "./approvals.ts";
import { type DeciderSpec, needsDecider } from "./decider.ts";
import { loopOnly, type PatternSpec } from "./pattern.ts";
import { authoringTools, readingTools } from "./skill-tools.ts";

const fields = {
  skills: list(
    "Skills that the agent may read. Unless skills_declared_only is true, it may also read all others of the deployment and the tenant.",
    closed("One skill.", {
      name: text("Its name.", {
        maxLength: 64,
        pattern: "^[a-z0-9]+(?:-[a-z0-9]+)*$",
        patternHelp: "may hold lower-case letters, digits and single hyphens only",
      }),
      version: Type.Optional(
        text("Pins a version of the skill library that is or was published.", {
          maxLength: 32,
          pattern: "^[0-9]{1,6}\\.[0-9]{1,6}\\.[0-9]{1,6}$",
          patternHelp: "must be three numbers with dots between them",
        }),
      ),
      description: optionalText("Replaces the skill's own description.", { maxLength: 1024 }),
    }),
  ),
  skills_declared_only: flag("Hides every skill that is not listed."),
  personal_skills: choice("What the agent may do with its caller's own skills.", ["off", "read", "write"], "off"),
  skill_authoring: section("Lets the agent write skills.", {
    enabled: flag("Switches it on, and binds create_skill, update_skill and submit_skill_feedback."),
    mode: choice("Action for a written skill.", ["draft", "publish"], "draft"),
    max_pending: integer("Drafts that may wait for a person.", { minimum: 1, maximum: 200, default: 20 }),
    auto_eval: flag("Evaluates each draft."),
  }),
  skill_suggestion: section("Suggests a skill that fits the turn.", {
    enabled: flag("Switches it on."),
    shortlist: integer("Skills that the decider reads.", { minimum: 1, maximum: 10, default: 3 }),
    min_gate: share("Least confidence that any fits.", 0.3),
    min_fit: share("Least confidence that this one fits.", 0.3),
  }),
};

/** The fields of this section in `spec`. */
export type SkillsSpec = SpecOf<typeof fields>;

type Spec = SkillsSpec & PatternSpec & DeciderSpec & ApprovalsSpec;

const rules: readonly Rule<Spec>[] = [
  unique("skills", "name"),
  {
    says: "must be off when spec.skills_declared_only is true",
    broken: (spec) => when(spec.personal_skills !== "off" && spec.skills_declared_only, "spec.personal_skills"),
  },
  {
    says: "can be write only when spec.skill_authoring.enabled is true",
    broken: (spec) => when(spec.personal_skills === "write" && !spec.skill_authoring.enabled, "spec.personal_skills"),
  },
  {
    says: "can be publish only with approval rules for create_skill and update_skill that have no when_args",
    broken: (spec) =>
      when(
        spec.skill_authoring.mode === "publish" &&
          !["create_skill", "update_skill"].every((tool) => gatesEveryCall(spec, tool)),
        "spec.skill_authoring.mode",
      ),
  },
  loopOnly("spec.skill_suggestion", (spec) => spec.skill_suggestion.enabled),
  needsDecider((spec) => when(spec.skill_suggestion.enabled, "spec.skill_suggestion.enabled")),
];

/** The skills that an agent may use, and how. */
export interface SkillRules {
  /** By name, in the order of the manifest. */
  readonly declared: ReadonlyMap<string, DeclaredSkill>;
  readonly declaredOnly: boolean;
  readonly personal: "off" | "read" | "write";
  /** Null if the agent writes no skills. */
  readonly authoring: {
    readonly mode: "draft" | "publish";
    readonly pendingMax: number;
    readonly autoEval: boolean;
  } | null;
  /** Null if no skill is suggested. */
  readonly suggestion: { readonly shortlist: number; readonly minGate: number; readonly minFit: number } | null;
}

/** A skill that a manifest names. */
export interface DeclaredSkill {
  /** Null for the newest. */
  readonly version: string | null;
  /** Empty for the skill's own. */
  readonly description: string;
}

/** Access of the agent to skills. */
export const skills = defineSection({
  fields,
  rules,
  compile(spec: Spec & { readonly tools: readonly string[] }) {
    const { skill_authoring: authoring, skill_suggestion: suggestion } = spec;
    const compiled: SkillRules = {
      declared: new Map(spec.skills.map(({ name, version = null, description }) => [name, { version, description }])),
      declaredOnly: spec.skills_declared_only,
      personal: spec.personal_skills,
      authoring: authoring.enabled
        ? { mode: authoring.mode, pendingMax: authoring.max_pending, autoEval: authoring.auto_eval }
        : null,
      suggestion: suggestion.enabled
        ? { shortlist: suggestion.shortlist, minGate: suggestion.min_gate, minFit: suggestion.min_fit }
        : null,
    };
    const isUsed = skillTools(spec).length > 0 || spec.tools.some((name) => skillToolNames.has(name));
    /** Null if the agent uses no skills. */
    return { skills: isUsed ? compiled : null };
  },
});

/** Names of the tools that read skills; spec.tools may name them too. */
const skillToolNames: ReadonlySet<string> = new Set(readingTools.map(({ name }) => name));

/** Returns the tools that the section binds. A router calls no tools. */
export function skillTools(spec: SkillsSpec & PatternSpec): readonly ToolSpec[] {
  const { skills: declared, skill_authoring, personal_skills, skill_suggestion, pattern } = spec;
  if (pattern === "router") return [];
  const isUsed =
    declared.length > 0 || skill_authoring.enabled || personal_skills !== "off" || skill_suggestion.enabled;
  if (!isUsed) return [];
  return skill_authoring.enabled ? [...readingTools, ...authoringTools] : readingTools;
}
