import { SvcError } from "../../bus/errors.ts";
import type { EmbeddingInput } from "../../bus/protocol/embedder.ts";
import { Type } from "../../bus/type.ts";
import type { TextVectors } from "../../governance/vectors/text-vectors.ts";
import type { Store } from "../../storage/store/store.ts";
import { isRebuilding, startRebuild } from "../../storage/tables/vector-rebuild.ts";
import { openAiRefusal } from "../exchange/openai-refusal.ts";
import { json } from "../exchange/reply.ts";
import { embeddingPieces, type VectorFormat } from "../openai/embedding-answer.ts";
import { actorFails, route } from "../route.ts";
import { nullable } from "../schemas/common.ts";
import { openAiTag, systemTag } from "../tags.ts";

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
    "budget_exceeded",
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
    const { tenant_id: tenantId, sub: subject } = principal;
    const task = { tenantId, subject, model, inputs: inputsOf(body.input), dimensions, requestId };
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

const Corpus = Type.Object({
  corpus: Type.String({ examples: ["documents"] }),
  texts: Type.Integer({ examples: [1200] }),
  embedded: Type.Integer({ description: "Texts with a vector of the present model.", examples: [1150] }),
  queued: Type.Integer({ description: "Texts that wait for a vector.", examples: [50] }),
});

const Status = Type.Object({
  status: Type.String({ description: "on or off", examples: ["on"] }),
  detail: nullable(Type.String({ description: "Why vectors are off.", examples: ["no embedder"] })),
  embedder: nullable(Type.String({ examples: ["text-embedding-3-small"] })),
  model: nullable(Type.String({ examples: ["openai/text-embedding-3-small"] })),
  dimensions: nullable(Type.Integer({ examples: [768] })),
  host: nullable(Type.String({ description: "The host that receives the texts.", examples: ["api.openai.com"] })),
  rebuilding: Type.Boolean({ description: "A rebuild still looks for texts.", examples: [false] }),
  corpora: Type.Array(Corpus),
});

const embeddingStatus = route({
  method: "GET",
  path: "/embeddings/status",
  summary: "The embedder of the deployment, and how many stored texts have vectors.",
  tag: systemTag,
  access: ["tasks:run"],
  reply: { description: "Numbers over all tenants.", schema: Status },
  fails: ["storage_unavailable"],
  async handle(_request, { store, textVectors }) {
    return json(await statusOf(store, textVectors));
  },
});

const rebuildEmbeddings = route({
  method: "POST",
  path: "/embeddings/rebuild",
  summary: "Queues every stored text without a vector of the present model.",
  tag: systemTag,
  access: ["tasks:run"],
  reply: { description: "The rebuild has begun. It continues after a restart.", schema: Status },
  fails: ["vectors_off", "storage_unavailable"],
  async handle(_request, { store, textVectors, runTask }) {
    const off = await textVectors.whyOff();
    if (off === "no embedder" || off === "no vector extension") throw new SvcError("vectors_off", { detail: off });
    await startRebuild(store, textVectors.corpora);
    // The task of this process does the work; another process may have the duty.
    void runTask("text_vectors").catch(() => {});
    return json(await statusOf(store, textVectors));
  },
});

async function statusOf(store: Store, vectors: TextVectors) {
  const { embedder } = vectors;
  const detail = await vectors.whyOff();
  const model = embedder ?? { model: "", dimensions: 0 };
  const corpora = await Promise.all(
    vectors.corpora.map(async (each) => ({ corpus: each.corpus, ...(await each.count(store, model)) })),
  );
  return {
    status: detail === null ? "on" : "off",
    detail,
    embedder: embedder?.name ?? null,
    model: embedder?.model ?? null,
    dimensions: embedder?.dimensions ?? null,
    host: embedder?.host ?? null,
    rebuilding: await isRebuilding(store, vectors.corpora),
    corpora,
  };
}

export const embeddingRoutes = [embeddings, embeddingStatus, rebuildEmbeddings];
