import { SvcError } from "../../bus/errors.ts";
import { offered } from "../../bus/nearest.ts";
import { toJsonText } from "../../bus/protocol/json-text.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { Type } from "../../bus/type.ts";
import { isAnonymous } from "../../governance/auth/anonymous.ts";
import type { HttpContext } from "../context.ts";
import { openAiRefusal } from "../exchange/openai-refusal.ts";
import { json } from "../exchange/reply.ts";
import { completionMessages } from "../openai/completion-messages.ts";
import { actorFails, type RouteRequest, route } from "../route.ts";
import { CompletionMessage } from "../schemas/chat.ts";
import { nullable } from "../schemas/common.ts";
import { completionEvents } from "../schemas/openai-events.ts";
import { streamExample } from "../stream-event.ts";
import { answerTurn, checkIdempotencyKey, streamTurn, type TurnFields } from "../streams/turns.ts";
import { openAiTag } from "../tags.ts";
import { namedThread, namingThread } from "../thread-header.ts";
import { optionalThreadSuffix } from "../thread-id.ts";
import { completionOptions, isNothing } from "../turn-options.ts";
import { IdempotencyKey, idempotencyFails, turnFails } from "./chat.ts";

const noEffect = "Accepted without effect.";

/**
 * Body of POST /v1/chat/completions. Fields without effect are listed, and any other field is accepted, because OpenAI clients send fields
 * of their own.
 */
const CompletionRequest = Type.Object(
  {
    model: Type.String({ description: "Name of a manifest." }),
    messages: Type.Array(CompletionMessage, { minItems: 1, maxItems: 10_000 }),
    stream: Type.Optional(nullable(Type.Boolean())),
    stream_options: Type.Optional(
      nullable(Type.Object({ include_usage: Type.Optional(nullable(Type.Boolean())) }, { additionalProperties: true })),
    ),
    user: Type.Optional(
      nullable(
        Type.String({
          description:
            "The thread's suffix; without it the turn is stateless. Ignored with SVC_OPENAI_USER=ignore, or with X-Svc-Thread-Id.",
        }),
      ),
    ),
    max_tokens: Type.Optional(nullable(Type.Integer({ minimum: 1, description: "Lowers the limit of the manifest." }))),
    max_completion_tokens: Type.Optional(nullable(Type.Integer({ minimum: 1, description: "As max_tokens." }))),
    temperature: Type.Optional(nullable(Type.Number({ minimum: 0, maximum: 2 }))),
    n: Type.Optional(nullable(Type.Integer({ minimum: 1, description: "1 is accepted; more is refused." }))),
    seed: Type.Optional(Type.Unknown({ description: noEffect })),
    top_p: Type.Optional(Type.Unknown({ description: noEffect })),
    frequency_penalty: Type.Optional(Type.Unknown({ description: noEffect })),
    presence_penalty: Type.Optional(Type.Unknown({ description: noEffect })),
    metadata: Type.Optional(Type.Unknown({ description: noEffect })),
    store: Type.Optional(Type.Unknown({ description: noEffect })),
    service_tier: Type.Optional(Type.Unknown({ description: noEffect })),
    parallel_tool_calls: Type.Optional(Type.Unknown({ description: "false: one call in each step of the model." })),
    logprobs: Type.Optional(
      nullable(Type.Boolean({ description: "false is accepted without effect; true is refused." })),
    ),
    tools: Type.Optional(
      Type.Unknown({
        description:
          "Functions of the client, at most 128, in addition to the manifest's tools; a call of one ends the answer with `tool_calls`. Names of the manifest's tools and other tool types are refused.",
      }),
    ),
    tool_choice: Type.Optional(
      Type.Unknown({
        description:
          "`none`, or, for the first step of the turn, `auto`, `required` or the name of a function, also of the manifest.",
      }),
    ),
    functions: Type.Optional(Type.Unknown({ description: "Refused: use `tools`." })),
    function_call: Type.Optional(Type.Unknown({ description: "Refused: use `tool_choice`." })),
    response_format: Type.Optional(
      Type.Unknown({
        description:
          "`text`, `json_object`, or `json_schema` with a schema of at most 16,384 characters; the manifest's output_schema wins.",
      }),
    ),
    stop: Type.Optional(Type.Unknown({ description: "Up to four texts at which the model stops." })),
    audio: Type.Optional(Type.Unknown({ description: "Refused." })),
  },
  {
    additionalProperties: true,
    description: "Other fields are accepted without effect.",
    examples: [{ model: "quick", messages: [{ role: "user", content: "What is 6 * 7?" }] }],
  },
);

const CompletionHeaders = Type.Object({
  "Idempotency-Key": IdempotencyKey,
  "X-Svc-Thread-Id": Type.Optional(
    Type.String({ description: "The thread's suffix, percent-encoded; it wins over `user`." }),
  ),
});

const completions = route({
  method: "POST",
  path: "/v1/chat/completions",
  summary: "A turn in the OpenAI protocol: the model is a manifest; user or X-Svc-Thread-Id names the thread.",
  tag: openAiTag,
  access: "chat:write",
  tenancy: [{ of: "manifest", body: (id) => ({ model: id, messages: [{ role: "user", content: "hi" }] }) }],
  anonymous: true,
  drives: "turn",
  headers: CompletionHeaders,
  body: CompletionRequest,
  reply: {
    description: "A chat.completion.",
    schema: Type.Object(
      { id: Type.String(), object: Type.String() },
      {
        additionalProperties: true,
        examples: [
          {
            ...{ id: "chatcmpl-d4e865c85a388aa550a42c21", object: "chat.completion", created: 1795348800 },
            model: "quick",
            choices: [
              {
                index: 0,
                message: { role: "assistant", content: "6 * 7 = 42", refusal: null },
                logprobs: null,
                finish_reason: "stop",
              },
            ],
            usage: {
              ...{ prompt_tokens: 1186, completion_tokens: 55, total_tokens: 1241 },
              prompt_tokens_details: { cached_tokens: 0 },
            },
          },
        ],
      },
    ),
  },
  otherReplies: [
    {
      description: "With `stream` its chunks.",
      contentType: "text/event-stream",
      events: completionEvents,
      example: streamExample(completionEvents.slice(0, 1)),
    },
  ],
  fails: [
    ...turnFails,
    ...idempotencyFails,
    "idempotency_key_requires_thread_id",
    "unsupported_parameter",
    "model_provider_error",
    "run_goes_on",
    "run_not_found",
  ],
  refusal: openAiRefusal,
  async handle(request, context) {
    const { body, principal, exchange } = request;
    refuseUnsupported(body);
    const stream = body.stream === true;
    const options = completionOptions(body);
    const thread_suffix = namedThread(exchange.head) ?? threadOfUser(body.user, context);
    checkIdempotencyKey(exchange.head.headers["idempotency-key"], stream, thread_suffix);
    const fields: TurnFields = {
      surface: stream ? "openai_stream" : "openai",
      manifest: body.model,
      messages: completionMessages(body.messages),
      thread_suffix,
      model: null,
      template: null,
      template_args: [],
      max_tokens: body.max_completion_tokens ?? body.max_tokens ?? null,
      temperature: body.temperature ?? null,
      include_usage: body.stream_options?.include_usage === true,
      ...(context.settings.openaiReasoning && { include_reasoning: true as const }),
      response: null,
      ...(options && { options: toJsonText(options) }),
    };
    const plain = request as RouteRequest<unknown, unknown, unknown>;
    const reply = await (stream ? streamTurn(plain, fields, context) : answerTurn(plain, fields, context));
    return namingThread(reply, principal.tenant_id, fields.thread_suffix);
  },
});

/** Returns the suffix in `user`; null if SVC_OPENAI_USER is `ignore`. Refuses with invalid_thread_id. */
function threadOfUser(user: string | null | undefined, { settings }: HttpContext): string | null {
  return settings.openaiUser === "ignore" ? null : optionalThreadSuffix(user);
}

const ModelObject = Type.Object(
  { id: Type.String(), object: Type.String() },
  {
    additionalProperties: true,
    examples: [
      {
        ...{ id: "quick", object: "model", created: 1795348800, owned_by: "svc", description: "A small assistant." },
        svc: { contextWindow: 128_000, providerModel: "demo", modalities: ["text"], starters: [], commands: [] },
      },
    ],
  },
);

const models = route({
  method: "GET",
  path: "/v1/models",
  summary: "The manifests, as models.",
  tag: openAiTag,
  access: "chat:read",
  anonymous: true,
  reply: {
    description: "`svc` has the metadata of the manifest.",
    schema: Type.Object({
      object: Type.String({ examples: ["list"] }),
      data: Type.Array(ModelObject),
    }),
  },
  fails: actorFails,
  refusal: openAiRefusal,
  async handle({ principal }, context) {
    return json({ object: "list", data: await modelsOf(principal, context) });
  },
});

const model = route({
  method: "GET",
  path: "/v1/models/{name}",
  summary: "One manifest, as a model.",
  tag: openAiTag,
  access: "chat:read",
  tenancy: [{ of: "manifest" }],
  anonymous: true,
  params: Type.Object({ name: Type.String({ description: "Name of the manifest.", examples: ["quick"] }) }),
  reply: { description: "As in the list.", schema: ModelObject },
  fails: ["unknown_manifest", ...actorFails],
  refusal: openAiRefusal,
  async handle({ params, principal }, context) {
    const all = await modelsOf(principal, context);
    const found = all.find(({ id }) => id === params.name);
    if (found !== undefined) return json(found);
    const names = all.map(({ id }) => id);
    const message = `There is no manifest of this name.${offered(params.name, names)}`;
    throw new SvcError("unknown_manifest", { subject: params.name, message });
  },
});

/** Returns the manifests that this caller may use: the default one first, the others by name. */
async function modelsOf(principal: Principal, { bus, mask, startedAt, settings }: HttpContext) {
  const { items } = await bus.ask({ kind: "manifests", key: principal.tenant_id }, "list", { models: true });
  const isDefault = ({ name }: { readonly name: string }): number => (name === settings.defaultManifest ? 0 : 1);
  const ordered = items.toSorted((a, b) => isDefault(a) - isDefault(b));
  return ordered.flatMap(({ name, source, pointer, model: card }) => {
    // Leave out manifests that do not compile, and those that an anonymous caller may not use.
    if (card === null || (isAnonymous(principal) && !card.allowAnonymous)) return [];
    const created = Math.floor((pointer?.updated_at ?? startedAt) / 1000);
    const masking = source === "store" ? mask.forms : mask.sent;
    const { description, starters, greeting, commands, tags: _tags, allowAnonymous: _, ...facts } = masking.value(card);
    const svc = { ...facts, description: description === "" ? null : description, starters, greeting, commands };
    return [{ id: name, object: "model", created, owned_by: pointer ? principal.tenant_id : "svc", description, svc }];
  });
}

type CompletionBody = Readonly<Record<string, unknown>>;

/** Refuses parameters that would change the answer but are not supported. */
function refuseUnsupported(body: CompletionBody): void {
  const refuse = (param: string): never => {
    throw new SvcError("unsupported_parameter", { subject: param });
  };
  for (const param of ["functions", "function_call", "audio"]) if (!isNothing(body[param])) refuse(param);
  if (typeof body.n === "number" && body.n > 1) refuse("n");
  if (body.logprobs === true) refuse("logprobs");
}

export const openAiRoutes = [completions, models, model];
