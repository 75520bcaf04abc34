import Type from "typebox";
import { choice, closed, flag, integer, optionalText, references, section, text } from "./fields.ts";

export const skills = references(
  "Skills that the agent may read.",
  closed("One skill.", {
    name: text("Its name.", {
      maxLength: 64,
      pattern: "^[a-z0-9]+(?:-[a-z0-9]+)*$",
      patternHelp: "may hold lower-case letters, digits and single hyphens only",
    }),
    version: Type.Optional(text("Pins a version that an operator uploaded.", { maxLength: 64 })),
    description: optionalText("Stands in the place of the skill's own."),
  }),
);

export const skillsDeclaredOnly = flag("Hides every skill that is not listed.");

export const personalSkills = choice(
  "What the agent may do with its caller's own skills.",
  ["off", "read", "write"],
  "off",
);

export const skillAuthoring = section("Lets the agent write skills.", {
  enabled: flag("Switches it on."),
  mode: choice("What becomes of a written skill.", ["draft", "publish"], "draft"),
  max_pending: integer("Drafts that may wait for a person.", { minimum: 1, maximum: 200, default: 20 }),
  auto_eval: flag("Evaluates each draft."),
});

export const skillSuggestion = section("Suggests a skill that fits the turn.", {
  enabled: flag("Switches it on."),
  shortlist: integer("Skills that the decider looks at.", { minimum: 1, maximum: 10, default: 3 }),
  min_gate: Type.Number({ description: "Least confidence that any fits.", minimum: 0, maximum: 1, default: 0.3 }),
  min_fit: Type.Number({ description: "Least confidence that this one fits.", minimum: 0, maximum: 1, default: 0.3 }),
});
