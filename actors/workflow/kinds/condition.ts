import { Type } from "../../../bus/type.ts";
import { holds, readCondition } from "../../../governance/workflows/condition.ts";
import type { StepKind } from "../step-kind.ts";

/** Decides whether an expression holds. */
export const condition: StepKind = {
  kind: "condition",
  source: "builtin",
  description: "Decides whether an expression holds, for the `when` of other steps.",
  config: Type.Object(
    {
      expr: Type.String({
        maxLength: 1_000,
        description: "left op right, with == != < <= > >= contains exists, joined by and, or, not.",
      }),
    },
    { additionalProperties: false },
  ),
  inputs: null,
  outputs: [
    { name: "true", type: "boolean", required: true },
    { name: "false", type: "boolean", required: true },
  ],
  forms: { expr: "condition" },
  isInner: true,
  begin({ config, values }) {
    const isTrue = holds(readCondition(String(config.expr)), values);
    return { kind: "done", output: { true: isTrue, false: !isTrue }, taint: values.taint };
  },
};
