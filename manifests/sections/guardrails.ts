import {
  choice,
  closed,
  flag,
  list,
  modelIdHelp,
  optionalText,
  section,
  share,
  text,
  toolGlobs,
  unbuilt,
} from "../fields/fields.ts";
import { each, type Rule, uniqueIn } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { type DeciderSpec, needsDecider } from "./decider.ts";

const fields = {
  guardrails: unbuilt(
    section("Checks content for forbidden or sensitive text.", {
      providers: list("Detectors.", choice("A detector.", ["pii"])),
      block_on_match: flag("True blocks the content, false masks the findings."),
      targets: list("Where to look.", choice("A place.", ["input", "output", "final_response"]), {
        default: ["input", "output"],
      }),
      judges: list(
        "Checks by a model.",
        closed("One judge.", {
          name: text("Its name.", { maxLength: 128 }),
          criteria: text("The criterion."),
          threshold: share("Minimum score; a lower one blocks the content.", 0.7),
          model: optionalText(`${modelIdHelp} Empty is the agent's own.`, { maxLength: 256 }),
          target_tools: toolGlobs("Tools whose calls are judged."),
          final_response: flag("Judges the reply."),
          decider: flag("Lets the decider judge."),
        }),
      ),
    }),
  ),
};

/** The fields of this section in `spec`. */
export type GuardrailsSpec = SpecOf<typeof fields>;

const rules: readonly Rule<GuardrailsSpec & DeciderSpec>[] = [
  needsDecider(({ guardrails: { judges } }) =>
    each("spec.guardrails.judges", judges, (judge) => judge.decider, "decider"),
  ),
  uniqueIn("spec.guardrails.judges", "name", (spec) => spec.guardrails.judges),
];

export const guardrails = defineSection({ fields, rules });
