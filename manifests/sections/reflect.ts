import { flag, integer, modelIdHelp, nullable, optionalText, section, share, text, unbuilt } from "../fields/fields.ts";
import { type Rule, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { type DeciderSpec, needsDecider } from "./decider.ts";

const fields = {
  reflect: unbuilt(
    section("Settings of the pattern reflect.", {
      verifier_model: nullable(text(`${modelIdHelp} Null is the agent's own.`, { maxLength: 256 })),
      threshold: share("A reply below this score is tried again.", 0.7),
      max_iterations: integer("Most tries.", { minimum: 1, maximum: 5, default: 2 }),
      criteria: optionalText("What the verifier looks for."),
      decider: flag("Lets the decider judge."),
    }),
  ),
};

const rules: readonly Rule<SpecOf<typeof fields> & DeciderSpec>[] = [
  needsDecider((spec) => when(spec.reflect.decider, "spec.reflect.decider")),
];

export const reflect = defineSection({ fields, rules });
