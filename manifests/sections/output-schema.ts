import { Type } from "../../bus/type.ts";
import { type AnswerSchema, readAnswerSchema } from "../answer-schema.ts";
import { nullable } from "../fields/fields.ts";
import { type Rule, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { PatternSpec } from "./pattern.ts";

const fields = {
  output_schema: nullable(
    Type.Unsafe<Record<string, unknown>>({ type: "object", description: "JSON Schema that the reply must match." }),
  ),
};

type Spec = SpecOf<typeof fields> & PatternSpec;

const rules: readonly Rule<Spec>[] = [
  {
    says: "does not go with the pattern groupchat",
    broken: (spec) => when(spec.pattern === "groupchat" && spec.output_schema !== null, "spec.output_schema"),
  },
];

/** The required format of the agent's reply. */
export const outputSchema = defineSection({
  fields,
  rules,
  compile({ output_schema }: Spec, { refuse }): { readonly outputSchema: AnswerSchema | null } {
    if (output_schema === null) return { outputSchema: null };
    return {
      outputSchema: readAnswerSchema(output_schema, (at, says) =>
        refuse(["spec", "output_schema", ...at], says, "unsupported"),
      ),
    };
  },
});
