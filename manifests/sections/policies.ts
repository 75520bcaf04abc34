import { closed, list, optionalText, text, texts, toolGlobs } from "../fields/fields.ts";
import { blank, each, isBlank, type Rule, unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { matchAnyGlob, matchGlob } from "../glob.ts";
import type { ToolSpec } from "../registries.ts";

const fields = {
  policies: list(
    "Scopes that callers need for tools.",
    closed("One policy.", {
      id: text("Its id.", { maxLength: 128 }),
      description: optionalText("For people."),
      required_scopes: texts("Scopes that the caller must have.", { minItems: 1 }),
      tools: toolGlobs("Tools that need the scopes.", { minItems: 1 }),
    }),
  ),
};

/** The fields of this section in `spec`. */
export type PoliciesSpec = SpecOf<typeof fields>;

const rules: readonly Rule<PoliciesSpec>[] = [
  unique("policies", "id"),
  {
    says: blank,
    type: "too_short",
    broken: ({ policies }) =>
      policies.flatMap(({ required_scopes }, at) =>
        each(["spec", "policies", at, "required_scopes"], required_scopes, isBlank),
      ),
  },
];

/** A policy with its selected tools. */
interface CompiledPolicy {
  readonly id: string;
  readonly required_scopes: readonly string[];
  /** Names of bound tools that the policy's globs select. */
  readonly tools: ReadonlySet<string>;
}

export const policies = defineSection({
  fields,
  rules,
  compile(spec: PoliciesSpec, { tools, selectsNothing }) {
    const names = tools.map(({ name }) => name);
    for (const { id, tools: globs } of spec.policies)
      for (const glob of globs)
        if (!names.some((name) => matchGlob(glob, name))) selectsNothing(`${id}: ${glob}`, "policy");
    return { policies: policiesOn(spec, tools) };
  },
});

/** Returns the policies with the tools that each selects. */
export function policiesOn(spec: PoliciesSpec, tools: readonly Pick<ToolSpec, "name">[]): CompiledPolicy[] {
  return spec.policies.map(({ id, required_scopes, tools: globs }) => {
    const selected = tools.filter(({ name }) => matchAnyGlob(globs, name));
    return { id, required_scopes, tools: new Set(selected.map(({ name }) => name)) };
  });
}
