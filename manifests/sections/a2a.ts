import { closed, flag, list, optionalText, section, text } from "../fields/fields.ts";
import { type Rule, uniqueIn } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";

const fields = {
  a2a: section("The agent card for other agents.", {
    publish: flag("False withholds the agent card; the agent can still be called.", true),
    capabilities: list(
      "The skills on the card; without any, the card has one skill with the name and description of the manifest.",
      closed("One capability.", {
        id: text("Its id.", { maxLength: 128 }),
        description: optionalText("In words."),
        input_schema_ref: optionalText("URL of the schema of its input."),
      }),
    ),
  }),
};

const rules: readonly Rule<SpecOf<typeof fields>>[] = [
  uniqueIn("spec.a2a.capabilities", "id", (spec) => spec.a2a.capabilities),
];

export const a2a = defineSection({ fields, rules });
