import type { EmbeddingInput } from "../../bus/protocol/embedder.ts";
import { Type } from "../../bus/type.ts";
import { openAiRefusal } from "../exchange/openai-refusal.ts";
import { embeddingPieces, type VectorFormat } from "../openai/embedding-answer.ts";
import { actorFails, route } from "../route.ts";
import { nullable } from "../schemas/common.ts";
import { openAiTag } from "../tags.ts";

/** Max inputs, the same as at OpenAI. */
const inputsMax = 2_048;
const dimensionsMax = 16_384;

const Text = Type.String({ minLength: 1 });
const Tokens = Type.Array(Type.Integer({ minimum: 0 }), { minItems: 1 });

const EmbeddingsRequest = Type.Object(
  {
    model: Type.String({
      description: "Id of a route of SVC_MODEL_ROUTES with kind embedding.",
      examples: ["text-embedding-3-small"],
    }),
    input: Type.Union(
      [
        Text,
        Type.Array(Text, { minItems: 1, maxItems: inputsMax }),
        Tokens,
        Type.Array(Tokens, { minItems: 1, maxItems: inputsMax }),
      ],
      { description: "A text, its tokens, or a list of either.", examples: ["What is 6 * 7?"] },
    ),
    encoding_format: Type.Optional(
      nullable(
        Type.Union([Type.Literal("float"), Type.Literal("base64")], {
          description: "base64: the 32-bit floats of each vector, little-endian.",
        }),
      ),
    ),
    dimensions: Type.Optional(
      nullable(
        Type.Integer({
          minimum: 1,
          maximum: dimensionsMax,
          description: "Dimensions of each vector, if the model supports the choice.",
        }),
      ),
    ),
    user: Type.Optional(Type.Unknown({ description: "Accepted without effect." })),
  },
  { additionalProperties: true, description: "Other fields are accepted without effect." },
);

const embeddings = route({
  method: "POST",
  path: "/v1/embeddings",
  summary: "Vectors of texts, in the OpenAI protocol.",
  tag: openAiTag,
  access: "chat:write",
  tenancy: [{ of: "manifest", body: (id) => ({ model: id, input: "hi" }) }],
  body: EmbeddingsRequest,
  reply: {
    description:
      "A list of embeddings in the order of the inputs. It may start before the last vector is ready, and is cut off if a later one fails.",
    schema: Type.Object(
      {
        object: Type.String({ examples: ["list"] }),
        data: Type.Array(
          Type.Object({ embedding: Type.Unknown({ examples: [[0.12, -0.03, 0.5]] }) }, { additionalProperties: true }),
        ),
        model: Type.String({ examples: ["demo"] }),
      },
      { additionalProperties: true },
    ),
  },
  fails: [
    "unknown_embedding_model",
    "embedding_refused",
    "model_not_configured",
    "model_provider_error",
    "unresolved_secret",
    "shutting_down",
    ...actorFails,
  ],
  refusal: openAiRefusal,
  handle({ body, principal, requestId }, context) {
    const { model, encoding_format, dimensions = null } = body;
    const task = { tenantId: principal.tenant_id, model, inputs: inputsOf(body.input), dimensions, requestId };
    const format: VectorFormat = encoding_format ?? "float";
    return { kind: "pieces", contentType: "application/json", pieces: embeddingPieces(context, task, format) };
  },
});

function inputsOf(
  input: string | readonly string[] | readonly number[] | readonly (readonly number[])[],
): EmbeddingInput[] {
  if (typeof input === "string") return [input];
  return typeof input[0] === "number" ? [input as readonly number[]] : [...(input as readonly EmbeddingInput[])];
}

export const embeddingRoutes = [embeddings];
