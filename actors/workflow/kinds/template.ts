import { Type } from "../../../bus/type.ts";
import type { StepKind } from "../step-kind.ts";

/** Fills the holes of a text. */
export const template: StepKind = {
  kind: "template",
  source: "builtin",
  description: "Fills the references of a text.",
  config: Type.Object(
    { text: Type.String({ description: "The text, with {{steps.ID.PORT}} and the like." }) },
    { additionalProperties: false },
  ),
  inputs: null,
  outputs: [{ name: "text", type: "text", required: true }],
  isInner: true,
  begin: ({ config, taint }) => ({
    kind: "done",
    output: { text: typeof config.text === "string" ? config.text : JSON.stringify(config.text) },
    taint,
  }),
};
