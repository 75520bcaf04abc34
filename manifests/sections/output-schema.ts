import { Type } from "../../bus/type.ts";
import { nullable, unbuilt } from "../fields/fields.ts";
import { type Rule, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { PatternSpec } from "./pattern.ts";

const fields = {
  output_schema: unbuilt(
    nullable(
      Type.Unsafe<Record<string, unknown>>({ type: "object", description: "JSON Schema that the reply must match." }),
    ),
  ),
};

const rules: readonly Rule<SpecOf<typeof fields> & PatternSpec>[] = [
  {
    says: "does not go with the pattern groupchat",
    broken: (spec) => when(spec.pattern === "groupchat" && spec.output_schema !== null, "spec.output_schema"),
  },
];

export const outputSchema = defineSection({ fields, rules });
