import { Type } from "../../bus/type.ts";
import { choice, closed, flag, integer, list, optionalText, section, text, unbuilt } from "../fields/fields.ts";
import { type Rule, unique, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { type ApprovalsSpec, gatesEveryCall } from "./approvals.ts";
import { type DeciderSpec, needsDecider } from "./decider.ts";
import { loopOnly, type PatternSpec } from "./pattern.ts";

const fields = {
  skills: unbuilt(
    list(
      "Skills that the agent may read.",
      closed("One skill.", {
        name: text("Its name.", {
          maxLength: 64,
          pattern: "^[a-z0-9]+(?:-[a-z0-9]+)*$",
          patternHelp: "may hold lower-case letters, digits and single hyphens only",
        }),
        version: Type.Optional(text("Pins a version that an operator uploaded.", { maxLength: 64 })),
        description: optionalText("Replaces the skill's own description."),
      }),
    ),
  ),
  skills_declared_only: unbuilt(flag("Hides every skill that is not listed.")),
  personal_skills: unbuilt(
    choice("What the agent may do with its caller's own skills.", ["off", "read", "write"], "off"),
  ),
  skill_authoring: unbuilt(
    section("Lets the agent write skills.", {
      enabled: flag("Switches it on."),
      mode: choice("Action for a written skill.", ["draft", "publish"], "draft"),
      max_pending: integer("Drafts that may wait for a person.", { minimum: 1, maximum: 200, default: 20 }),
      auto_eval: flag("Evaluates each draft."),
    }),
  ),
  skill_suggestion: unbuilt(
    section("Suggests a skill that fits the turn.", {
      enabled: flag("Switches it on."),
      shortlist: integer("Skills that the decider reads.", { minimum: 1, maximum: 10, default: 3 }),
      min_gate: Type.Number({ description: "Least confidence that any fits.", minimum: 0, maximum: 1, default: 0.3 }),
      min_fit: Type.Number({
        description: "Least confidence that this one fits.",
        minimum: 0,
        maximum: 1,
        default: 0.3,
      }),
    }),
  ),
};

type Spec = SpecOf<typeof fields> & PatternSpec & DeciderSpec & ApprovalsSpec;

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

/** Access of the agent to skills. */
export const skills = defineSection({ fields, rules });
