import { Type } from "../../../bus/type.ts";
import { itemsMax } from "../../../governance/workflows/definition.ts";
import type { StepKind } from "../step-kind.ts";

/** Does the same work for each item of a list. The run itself advances the items; see map-items.ts. */
export const map: StepKind = {
  kind: "map",
  source: "builtin",
  description: `Does the work of \`step\` for each item of a list of at most ${itemsMax}. The work reads $item and $index.`,
  config: Type.Object(
    {
      items: Type.Unsafe<unknown>({
        anyOf: [{ type: "array", maxItems: itemsMax }, { type: "string" }],
        description: "A list, or a reference to one.",
      }),
      step: Type.Object(
        {
          kind: Type.String({ description: "agent, tool_call, template or condition." }),
          config: Type.Object({}, { additionalProperties: true }),
          retry: Type.Optional(Type.Object({}, { additionalProperties: true })),
          timeout_seconds: Type.Optional(Type.Integer()),
          on_error: Type.Optional(
            Type.String({ description: "fail: the map fails with the item. continue: its result is null." }),
          ),
        },
        { additionalProperties: false },
      ),
      max_parallel: Type.Optional(
        Type.Integer({ minimum: 1, maximum: 8, description: "Items at once; 4 by default." }),
      ),
    },
    { additionalProperties: false },
  ),
  inputs: null,
  outputs: [{ name: "results", type: "list", required: true }],
  forms: { step: "step", max_parallel: "literal" },
  types: { items: "list" },
  begin: () => {
    throw new Error("the run advances the items of a map");
  },
};
