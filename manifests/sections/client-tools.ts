import { Type } from "../../bus/type.ts";
import { closed, flag, nullable, references, text, unbuilt } from "../fields/fields.ts";
import { unique } from "../fields/rules.ts";
import { defineSection } from "../fields/section.ts";

export const clientTools = defineSection({
  fields: {
    client_tools: unbuilt(
      references(
        "Tools that the client carries out.",
        closed("One tool.", {
          name: text("Its name.", { maxLength: 64 }),
          description: Type.String({ description: "Told to the model.", default: "" }),
          args_schema: nullable(Type.Unsafe<Record<string, unknown>>({ type: "object", description: "JSON Schema." })),
          timeout_seconds: Type.Unsafe<number | null>({
            type: ["number", "null"],
            description: "How long the run waits.",
            exclusiveMinimum: 0,
            maximum: 3600,
            default: 120,
          }),
          fatal: flag("True ends the run when the tool fails."),
        }),
      ),
    ),
  },
  rules: [unique("client_tools", "name")],
});
