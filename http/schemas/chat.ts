import { Type } from "../../bus/type.ts";
import { nullable } from "./common.ts";
import { eventIdExample, questionExample, replyExample, runIdExample } from "./example-values.ts";

const ofMessage = {
  role: Type.String({ maxLength: 32 }),
  content: Type.Optional(
    Type.Unknown({
      description:
        "A string, a list of parts, or null. Parts are `{type: text, text}`, `{type: image_url, image_url: {url, detail?}}` with an https: or data: URL, and `{type: file, file: {file_id}}`.",
    }),
  ),
  tool_calls: Type.Optional(Type.Unknown()),
  attachments: Type.Optional(
    Type.Unknown({
      description: "Of a user: `[{url, media_type?, filename?}]`; a URL is `svc-file://{file_id}`, https: or data:.",
    }),
  ),
};
const name = Type.String({ maxLength: 128 });
const toolCallId = Type.String({ maxLength: 256 });

/** An OpenAI-shaped message. The run validates its parts. */
const ClientMessage = Type.Object(
  { ...ofMessage, name: Type.Optional(name), tool_call_id: Type.Optional(toolCallId) },
  { additionalProperties: true },
);

/** A message as OpenAI clients send it: absent fields may be null. */
export const CompletionMessage = Type.Object(
  {
    ...ofMessage,
    name: Type.Optional(nullable(name)),
    tool_call_id: Type.Optional(nullable(toolCallId)),
    refusal: Type.Optional(Type.Unknown({ description: "For an assistant message without content: its text." })),
  },
  { additionalProperties: true },
);

/** Body of POST /chat and POST /chat/stream. */
export const ChatRequest = Type.Object(
  {
    manifest: Type.String({ description: "Name of the manifest." }),
    messages: Type.Array(ClientMessage, { default: [], maxItems: 10_000 }),
    thread_id: Type.Optional(
      nullable(
        Type.String({
          description:
            "The thread's suffix, 1 to 200 characters, without `%`, and not `search`. Without it the turn is stateless.",
        }),
      ),
    ),
    model: Type.Optional(nullable(Type.String({ description: "An allowed model for this turn." }))),
    template: Type.Optional(nullable(Type.String({ maxLength: 64, description: "Name of a prompt of the manifest." }))),
    template_args: Type.Array(Type.String(), { default: [], maxItems: 1000 }),
  },
  {
    additionalProperties: false,
    examples: [{ manifest: "quick", thread_id: "tour", messages: [{ role: "user", content: "What is 6 * 7?" }] }],
  },
);

export const ThreadParams = Type.Object({
  thread_id: Type.String({ description: "The thread's suffix.", examples: ["tour"] }),
});

const Message = Type.Object(
  { role: Type.String(), content: Type.String() },
  { additionalProperties: true, description: "`{role, content, name?, tool_calls?, tool_call_id?}`" },
);

/** The tokens and cost of a turn. */
export const TokenUsage = Type.Object({
  input: Type.Integer(),
  output: Type.Integer(),
  cacheRead: Type.Integer(),
  cacheWrite: Type.Integer(),
  reasoning: Type.Optional(Type.Integer({ description: "Part of `output`, if the provider reports it." })),
  totalTokens: Type.Integer(),
  cost: Type.Object(
    {
      input: Type.Number(),
      output: Type.Number(),
      cacheRead: Type.Number(),
      cacheWrite: Type.Number(),
      total: Type.Number(),
    },
    { description: "USD." },
  ),
});

/** The answer for an accepted durable run. */
export const AcceptedRun = Type.Object({
  status: Type.Literal("accepted"),
  resume_token: Type.String({
    description: "Token to read the run; valid for the whole tenant.",
    examples: [runIdExample],
  }),
  fiber_id: Type.String({ examples: [runIdExample] }),
  expires_at: Type.String({
    description: "ISO 8601; each step of the run extends it.",
    examples: ["2026-11-24T12:00:00.000Z"],
  }),
  thread_id: nullable(
    Type.String({ description: "`{tenant}:{suffix}`; null without a thread.", examples: ["default:tour"] }),
  ),
});

/** The record of a durable run. */
export const RunRecord = Type.Object({
  status: Type.String({
    description: "accepted, running, waiting; completed, failed, expired or dead at the end.",
    examples: ["completed"],
  }),
  fiber_id: Type.String({ examples: [runIdExample] }),
  resume_token: Type.String({ examples: [runIdExample] }),
  expires_at: Type.String({ description: "ISO 8601.", examples: ["2026-11-24T12:00:00.000Z"] }),
  final: nullable(Type.Object({ role: Type.String(), content: Type.String() }, { examples: [replyExample] })),
  error: nullable(Type.String({ description: "`code` or `code: message`." }), { examples: [null] }),
  manifest_id: Type.String({ examples: ["quick"] }),
  webhooks: Type.Optional(
    Type.Unsafe<Readonly<Record<string, string>>>({
      type: "object",
      additionalProperties: { type: "string", enum: ["pending", "delivered", "dead"] },
      description: "State of the webhook deliveries, by endpoint; absent without webhooks.",
    }),
  ),
});

/** Body of the answer to POST /chat. */
export const ChatAnswer = Type.Object({
  messages: Type.Array(Message, { examples: [[questionExample, replyExample]] }),
  final: nullable(Message, { examples: [replyExample] }),
  thread_id: Type.String({
    description: "`{tenant}:{suffix}`, empty for a stateless turn.",
    examples: ["default:tour"],
  }),
  model: Type.String({ description: "The model that the turn ran on.", examples: ["demo"] }),
  leaf_id: Type.String({ examples: [eventIdExample] }),
  approvals: Type.Array(Type.Object({}, { additionalProperties: true }), { examples: [[]] }),
  stop_reason: Type.String({ examples: ["end_turn"] }),
  usage: Type.Optional(TokenUsage),
  continued: Type.Optional(Type.Boolean()),
});
