import { closed, list, nullable, objectKey, optionalText, text } from "../fields/fields.ts";
import { type Rule, uniqueAsideCase } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { type CompiledPrompt, isCommandName } from "../prompts.ts";

const fields = {
  prompts: list(
    "Templates; a name of letters, digits, - and _ is also a slash command.",
    closed("One template.", {
      name: text("Its name; upper and lower case are the same.", { maxLength: 64 }),
      body: optionalText("The text; $1 is the first argument, $@ all of them, and $1 in braces may bring a default."),
      file: nullable(objectKey("Object key of the body, used when body is empty.")),
      description: optionalText("Shown in menus.", { maxLength: 200 }),
      argument_hint: optionalText("Shown after the name.", { maxLength: 80 }),
    }),
    { maxItems: 256 },
  ),
};

type Spec = SpecOf<typeof fields>;

const rules: readonly Rule<Spec>[] = [uniqueAsideCase("spec.prompts", "name", (spec) => spec.prompts)];

/** The compiled part of this section. */
interface CompiledPrompts {
  /** Slash commands and templates by lower-case name. */
  readonly prompts: ReadonlyMap<string, CompiledPrompt>;
}

export const prompts = defineSection({
  fields,
  rules,
  compile(spec: Spec, { readText }): CompiledPrompts {
    const byName = new Map<string, CompiledPrompt>();
    for (const [at, { name, body, file, description, argument_hint }] of spec.prompts.entries()) {
      const fromFile = body === "" && file !== null;
      byName.set(name.toLowerCase(), {
        name,
        body: fromFile ? readText(file, ["spec", "prompts", at, "file"]) : body,
        description,
        argument_hint,
        command: isCommandName(name),
      });
    }
    return { prompts: byName };
  },
});
