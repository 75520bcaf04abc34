import { closed, list, nullable, optionalText, section, text, unbuilt } from "../fields/fields.ts";
import { type Rule, uniqueAsideCase, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { loopOnly, type PatternSpec } from "./pattern.ts";

const fields = {
  output_styles: unbuilt(
    section("Ways to answer that a conversation may pick from.", {
      default: nullable(text("Name of the style of conversations that picked none.", { maxLength: 64 })),
      styles: list(
        "The styles.",
        closed("One style.", {
          name: text("Its name; case does not matter.", {
            maxLength: 64,
            pattern: "^[A-Za-z0-9_-]+$",
            patternHelp: "may hold letters, digits, - and _ only",
          }),
          description: optionalText("Shown in menus.", { maxLength: 200 }),
          prompt: text("Added at the end of the system prompt.", { maxLength: 16_000 }),
        }),
        { maxItems: 16 },
      ),
    }),
  ),
};

type Spec = SpecOf<typeof fields> & PatternSpec;

const rules: readonly Rule<Spec>[] = [
  loopOnly("spec.output_styles", ({ output_styles: { default: name, styles } }) => name !== null || styles.length > 0),
  uniqueAsideCase("spec.output_styles.styles", "name", (spec) => spec.output_styles.styles),
  {
    says: "names no style of spec.output_styles.styles",
    broken: ({ output_styles: { default: name, styles } }) =>
      when(name !== null && !styles.some((style) => style.name === name), "spec.output_styles.default"),
  },
];

export const outputStyles = defineSection({ fields, rules });
