import { closed, list, nullable, optionalText, section, text } from "../fields/fields.ts";
import { type Rule, uniqueAsideCase, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { loopOnly, type PatternSpec } from "./pattern.ts";
import { type CompiledSystemPrompt, joinedParts } from "./system-prompt.ts";

/** Max characters of a style's name. */
export const styleNameCharsMax = 64;

const fields = {
  output_styles: section("Output styles that a thread may select.", {
    default: nullable(
      text("Default style of threads; upper and lower case are the same.", {
        maxLength: styleNameCharsMax,
      }),
    ),
    styles: list(
      "The styles.",
      closed("One style.", {
        name: text("Its name; upper and lower case are the same.", {
          maxLength: styleNameCharsMax,
          pattern: "^[A-Za-z0-9_-]+$",
          patternHelp: "may hold letters, digits, - and _ only",
        }),
        description: optionalText("Shown in menus.", { maxLength: 200 }),
        prompt: text("Added at the end of the system prompt.", { maxLength: 16_000 }),
      }),
      { maxItems: 16 },
    ),
  }),
};

type Spec = SpecOf<typeof fields> & PatternSpec;

const rules: readonly Rule<Spec>[] = [
  loopOnly("spec.output_styles", ({ output_styles: { default: name, styles } }) => name !== null || styles.length > 0),
  uniqueAsideCase("spec.output_styles.styles", "name", (spec) => spec.output_styles.styles),
  {
    says: "names no style of spec.output_styles.styles",
    broken: ({ output_styles: { default: name, styles } }) =>
      when(
        name !== null && !styles.some((style) => style.name.toLowerCase() === name.toLowerCase()),
        "spec.output_styles.default",
      ),
  },
];

/** An output style. */
interface CompiledStyle {
  /** The name as declared. */
  readonly name: string;
  readonly prompt: string;
}

/** The compiled part of this section. */
interface CompiledStyles {
  /** By lower-case name. */
  readonly outputStyles: ReadonlyMap<string, CompiledStyle>;
  /** For threads without a chosen style, or whose style is not declared. */
  readonly defaultOutputStyle: CompiledStyle | null;
}

export const outputStyles = defineSection({
  fields,
  rules,
  compile({ output_styles: { default: name, styles } }: Spec): CompiledStyles {
    const byName = new Map(styles.map((style) => [style.name.toLowerCase(), style]));
    return {
      outputStyles: byName,
      defaultOutputStyle: name === null ? null : (byName.get(name.toLowerCase()) ?? null),
    };
  },
});

/** Returns the system prompt of a thread with this style, or without one. */
export function styledPrompt(
  { systemPrompt, outputStyles: declared, defaultOutputStyle }: CompiledSystemPrompt & CompiledStyles,
  picked: string | null,
): string {
  const style = (picked === null ? undefined : declared.get(picked.toLowerCase())) ?? defaultOutputStyle;
  return style === null ? systemPrompt : joinedParts([systemPrompt, style.prompt]);
}
