import { Type } from "../../../bus/type.ts";
import type { StepKind } from "../step-kind.ts";

/** Collects the values that came. */
export const merge: StepKind = {
  kind: "merge",
  source: "builtin",
  description: "Collects values into a list, without those of steps that were skipped or have failed.",
  config: Type.Object(
    {
      values: Type.Array(Type.String(), {
        minItems: 1,
        maxItems: 100,
        description: "References such as $steps.ID.PORT, in the order of the list.",
      }),
    },
    { additionalProperties: false },
  ),
  inputs: null,
  outputs: [{ name: "values", type: "list", required: true }],
  forms: { values: "each" },
  begin: ({ config, taint }) => ({ kind: "done", output: { values: config.values }, taint }),
};
