import { choice, flag, modelIdHelp, optionalText, section, toolGlobs, unbuilt } from "../fields/fields.ts";
import { type Rule, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { type DeciderSpec, needsDecider } from "./decider.ts";

const fields = {
  content_screening: unbuilt(
    section("Searches external content for instructions.", {
      enabled: flag("Switches it on."),
      model: optionalText(modelIdHelp, { maxLength: 256 }),
      tools: toolGlobs("Tools whose output is screened in addition to the untrusted ones."),
      on_flag: choice("Action for flagged content.", ["quarantine", "block"], "quarantine"),
      decider: flag("Lets the decider judge."),
      model_tools: toolGlobs("Tools whose output a model judges too."),
      image_model: optionalText("Route that judges images.", { maxLength: 256 }),
    }),
  ),
};

/** The fields of this section in `spec`. */
export type ContentScreeningSpec = SpecOf<typeof fields>;

const rules: readonly Rule<ContentScreeningSpec & DeciderSpec>[] = [
  needsDecider((spec) => when(spec.content_screening.decider, "spec.content_screening.decider")),
  {
    says: "needs spec.content_screening.model or decider",
    broken: ({ content_screening: screening }) =>
      when(
        screening.model_tools.length > 0 && screening.model === "" && !screening.decider,
        "spec.content_screening.model_tools",
      ),
  },
  {
    says: "needs spec.content_screening.enabled",
    broken: ({ content_screening: screening }) =>
      when(screening.image_model !== "" && !screening.enabled, "spec.content_screening.image_model"),
  },
];

export const contentScreening = defineSection({ fields, rules });
