import { Type } from "../../bus/type.ts";
import { nullable } from "./common.ts";
import { completedResponse } from "./openai-events.ts";

const noEffect = "Accepted without effect.";
const refused = "Refused.";

/** Body of POST /v1/responses: supported fields, fields without effect, and refused fields. */
export const ResponseRequest = Type.Object(
  {
    model: Type.String({ description: "Name of a manifest." }),
    input: Type.Unsafe<string | readonly Readonly<Record<string, unknown>>[]>({
      type: ["string", "array"],
      minItems: 1,
      maxItems: 10_000,
      items: { type: "object" },
      description:
        "A text, or items: `message`, `function_call` and `function_call_output` of `tools` (other calls are treated as quotations), `reasoning`, which has no effect, and `item_reference` to an item of a stored response.",
    }),
    instructions: Type.Optional(
      nullable(Type.String({ description: "Added below the manifest's own, for this turn only." })),
    ),
    previous_response_id: Type.Optional(
      nullable(
        Type.String({
          maxLength: 128,
          description:
            "The response to continue; if another response already follows it, a copy of the conversation is continued.",
        }),
      ),
    ),
    store: Type.Optional(nullable(Type.Boolean({ description: "false: the turn is stateless. Default true." }))),
    stream: Type.Optional(nullable(Type.Boolean())),
    max_output_tokens: Type.Optional(
      nullable(Type.Integer({ minimum: 1, description: "Lowers the limit of the manifest." })),
    ),
    temperature: Type.Optional(nullable(Type.Number({ minimum: 0, maximum: 2 }))),
    metadata: Type.Optional(
      nullable(
        Type.Unsafe<Record<string, string>>({
          type: "object",
          maxProperties: 16,
          propertyNames: { type: "string", maxLength: 64 },
          additionalProperties: { type: "string", maxLength: 512 },
          description: "Returned with the response.",
        }),
      ),
    ),
    background: Type.Optional(
      nullable(
        Type.Boolean({
          description:
            "true: answered at once, as `queued`; the turn continues without the client, also after a restart. Refused with `store: false`.",
        }),
      ),
    ),
    tools: Type.Optional(
      Type.Unknown({
        description:
          "Functions of the client, at most 128, in addition to the manifest's tools; a call of one ends the response with a `function_call`. Names of the manifest's tools and other tool types are refused.",
      }),
    ),
    tool_choice: Type.Optional(
      Type.Unknown({
        description:
          "`none`, or, for the first step of the turn, `auto`, `required` or the name of a function, also of the manifest.",
      }),
    ),
    text: Type.Optional(
      Type.Unknown({
        description:
          "`format` is `text`, `json_object`, or `json_schema` with a schema of at most 16,384 characters; the manifest's output_schema wins.",
      }),
    ),
    conversation: Type.Optional(Type.Unknown({ description: refused })),
    prompt: Type.Optional(Type.Unknown({ description: refused })),
    max_tool_calls: Type.Optional(Type.Unknown({ description: refused })),
    top_logprobs: Type.Optional(Type.Unknown({ description: "Refused unless it is 0." })),
    include: Type.Optional(Type.Unknown({ description: noEffect })),
    parallel_tool_calls: Type.Optional(Type.Unknown({ description: "false: one call in each step of the model." })),
    reasoning: Type.Optional(Type.Unknown({ description: noEffect })),
    service_tier: Type.Optional(Type.Unknown({ description: noEffect })),
    top_p: Type.Optional(Type.Unknown({ description: noEffect })),
    truncation: Type.Optional(Type.Unknown({ description: noEffect })),
    user: Type.Optional(Type.Unknown({ description: noEffect })),
  },
  {
    additionalProperties: true,
    description: "Other fields are accepted without effect.",
    examples: [{ model: "quick", input: "What is 6 * 7?" }],
  },
);

/** A response, complete or in progress. */
export const ResponseObject = Type.Object(
  { id: Type.String(), object: Type.String(), status: Type.String(), output: Type.Array(Type.Unknown()) },
  { additionalProperties: true, examples: [completedResponse] },
);
