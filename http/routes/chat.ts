import { threadAddress } from "../../bus/address.ts";
import { type ErrorCode, SvcError } from "../../bus/errors.ts";
import { doneMark, errorFrameOf } from "../../bus/frames/frames.ts";
import { Type } from "../../bus/type.ts";
import type { Reply } from "../exchange/reply.ts";
import { actorFails, route } from "../route.ts";
import { AcceptedRun, ChatAnswer, ChatRequest, ThreadParams } from "../schemas/chat.ts";
import { nullable } from "../schemas/common.ts";
import { snapshotExample } from "../schemas/example-values.ts";
import { tailEvents, tailExample, turnEvents, turnExample } from "../schemas/frames.ts";
import { currentSnapshot } from "../snapshot.ts";
import { streamExample } from "../stream-event.ts";
import { Reattachment } from "../streams/reattach.ts";
import { openRunStream, readEventId } from "../streams/run-stream.ts";
import { answerTurn, checkIdempotencyKey, streamTurn, type TurnFields } from "../streams/turns.ts";
import { chatTag } from "../tags.ts";
import { checkReadSuffix, checkThreadSuffix, optionalThreadSuffix } from "../thread-id.ts";

/** Error codes of a turn on every entry point. */
export const turnFails: readonly ErrorCode[] = [
  "invalid_thread_id",
  "manifest_required",
  "unknown_manifest",
  "invalid_manifest",
  "auth_scheme_not_allowed",
  "missing_scopes",
  "run_in_progress",
  "manifest_pin_moved",
  "frozen",
  "budget_exceeded",
  "unpriced_model",
  "model_not_allowlisted",
  "messages_or_template_required",
  "unknown_prompt",
  "empty_prompt",
  "too_many_commands",
  "thread_too_large",
  "storage_quota_exceeded",
  "unsupported_part",
  "blocked_by_hook",
  "content_screening_denied",
  "content_screening_oversize",
  "content_screening_unavailable",
  "too_many_tools",
  "unresolved_secret",
  "model_not_configured",
  ...actorFails,
];

/** Error codes of a request with an Idempotency-Key. */
export const idempotencyFails: readonly ErrorCode[] = [
  "invalid_idempotency_key",
  "idempotency_key_reused",
  "idempotency_in_progress",
];

/** The header of turns that may be repeated. */
export const IdempotencyKey = Type.Optional(
  Type.String({
    description:
      "Visible ASCII, at most 255 characters, without braces. A repeated request gets the answer of the first; after a 5xx all but POST /chat/stream run again, unless a call that may change something had started.",
  }),
);

const IdempotencyHeaders = Type.Object({ "Idempotency-Key": IdempotencyKey });

const accepted = {
  status: 202,
  description: "With a manifest of spec.execution.mode durable: the run is stored, and continues without the client.",
  schema: AcceptedRun,
};

const chat = route({
  method: "POST",
  path: "/chat",
  summary: "Runs a turn and waits for the reply.",
  tag: chatTag,
  access: "chat:write",
  tenancy: [{ of: "manifest", body: (id) => ({ manifest: id, messages: [{ role: "user", content: "hi" }] }) }],
  anonymous: true,
  drives: "turn",
  headers: IdempotencyHeaders,
  body: ChatRequest,
  reply: { description: "The reply and the messages that led to it.", schema: ChatAnswer },
  otherReplies: [accepted],
  fails: [...turnFails, ...idempotencyFails, "run_queue_full", "model_provider_error", "tool_failed"],
  handle(request, context) {
    const { body, exchange } = request;
    const suffix = optionalThreadSuffix(body.thread_id);
    checkIdempotencyKey(exchange.head.headers["idempotency-key"], false, suffix);
    return answerTurn(request, turnFields("chat", body, suffix), context);
  },
});

const chatStream = route({
  method: "POST",
  path: "/chat/stream",
  summary: "Runs a turn and streams it.",
  tag: chatTag,
  access: "chat:write",
  tenancy: [{ of: "manifest", body: (id) => ({ manifest: id, messages: [{ role: "user", content: "hi" }] }) }],
  anonymous: true,
  drives: "turn",
  headers: IdempotencyHeaders,
  body: ChatRequest,
  reply: {
    description: "Frames of the turn, ended by `data: [DONE]`.",
    contentType: "text/event-stream",
    events: turnEvents,
    example: streamExample(turnExample),
  },
  fails: [...turnFails, ...idempotencyFails, "idempotency_key_requires_thread_id", "run_queue_full", "run_not_found"],
  handle(request, context) {
    const { body, exchange } = request;
    const suffix = optionalThreadSuffix(body.thread_id);
    checkIdempotencyKey(exchange.head.headers["idempotency-key"], true, suffix);
    return streamTurn(request, turnFields("chat_stream", body, suffix), context).catch(blockedStream);
  },
});

/** Returns a stream with the refusal of a hook alone (decision 183: it is an error frame, because hooks take time); throws others. */
function blockedStream(error: unknown): Reply {
  if (!(error instanceof SvcError) || error.code !== "blocked_by_hook") throw error;
  return {
    kind: "stream",
    open: (stream) => stream.end(errorFrameOf(error.message, "blocked_by_hook") + doneMark),
  };
}

const chatContinue = route({
  method: "POST",
  path: "/chat/continue",
  summary: "Continues a thread after an abort or an error, without a new message.",
  tag: chatTag,
  access: "chat:write",
  tenancy: [{ of: "thread", body: (id) => ({ thread_id: id }) }],
  drives: "turn",
  body: Type.Object(
    {
      thread_id: Type.String({ description: "The thread's suffix.", examples: ["tour"] }),
      manifest: Type.Optional(Type.String({ description: "Default: the manifest of the thread's last run." })),
      model: Type.Optional(nullable(Type.String())),
    },
    { additionalProperties: false },
  ),
  reply: { description: "The reply.", schema: ChatAnswer },
  otherReplies: [accepted],
  fails: [
    ...turnFails,
    "run_queue_full",
    "nothing_to_continue",
    "already_complete",
    "model_provider_error",
    "tool_failed",
  ],
  handle(request, context) {
    const { thread_id, manifest, model } = request.body;
    const suffix = checkThreadSuffix(thread_id);
    const fields = { manifest: manifest ?? "", messages: [], model: model ?? null, template: null, template_args: [] };
    return answerTurn(request, turnFields("continue", fields, suffix), context);
  },
});

const chatAbort = route({
  method: "POST",
  path: "/chat/abort",
  summary: "Stops the live run of a thread.",
  tag: chatTag,
  access: "chat:write",
  tenancy: [{ of: "thread", body: (id) => ({ thread_id: id }) }],
  drives: "thread",
  body: Type.Object(
    { thread_id: Type.String({ description: "The thread's suffix.", examples: ["tour"] }) },
    { additionalProperties: false },
  ),
  reply: {
    description: "`aborted` is false if no run was live.",
    schema: Type.Object({
      ok: Type.Boolean(),
      aborted: Type.Boolean({ examples: [true] }),
      thread_id: Type.String({ examples: ["default:tour"] }),
      snapshot: Type.Object({}, { additionalProperties: true, examples: [snapshotExample] }),
    }),
  },
  fails: ["invalid_thread_id", ...actorFails],
  async handle({ body, principal }, context) {
    const suffix = checkThreadSuffix(body.thread_id);
    const address = threadAddress(principal.tenant_id, suffix);
    const { aborted } = await context.bus.ask(address, "abort", { reason: "client" }, { deadlineMs: 30_000 });
    const head = JSON.stringify({ ok: true, aborted, thread_id: address.key });
    const around = { before: `${head.slice(0, -1)},"snapshot":`, after: "}" };
    const pieces = currentSnapshot(context, principal, suffix, around);
    return { kind: "pieces", contentType: "application/json", pieces };
  },
});

const chatReattach = route({
  method: "GET",
  path: "/chat/stream/{thread_id}",
  summary: "Listens to a thread: a snapshot or the events after Last-Event-ID, then live events.",
  tag: chatTag,
  access: "chat:read",
  tenancy: [{ of: "thread" }, { of: "run", query: (id) => `resume_token=${id}` }],
  params: ThreadParams,
  query: Type.Object({
    last_event_id: Type.Optional(Type.String({ description: "For clients that cannot set the header Last-Event-ID." })),
    resume_token: Type.Optional(
      Type.String({
        description: "Token of a durable run of the thread: the stream shows that run, and ends with it.",
      }),
    ),
  }),
  headers: Type.Object({
    "Last-Event-ID": Type.Optional(Type.String({ description: "The id of the last received frame." })),
  }),
  reply: {
    description: "Frames, until the stream was idle for a while.",
    contentType: "text/event-stream",
    events: tailEvents,
    example: streamExample(tailExample),
  },
  fails: ["invalid_thread_id", "run_not_found"],
  handle({ params, query, principal, exchange }, context) {
    const suffix = checkReadSuffix(params.thread_id);
    const cursor = readEventId(exchange.head.headers["last-event-id"] ?? query.last_event_id);
    if (query.resume_token !== undefined)
      return openRunStream(context, principal, query.resume_token, { cursor, of: suffix });
    return {
      kind: "stream",
      open: (stream) => void new Reattachment(context, principal, suffix, cursor, stream),
    };
  },
});

type ChatFields = Pick<TurnFields, "manifest" | "messages"> & {
  readonly model?: string | null;
  readonly template?: string | null;
  readonly template_args?: readonly string[];
};

function turnFields(surface: TurnFields["surface"], body: ChatFields, suffix: string | null): TurnFields {
  return {
    surface,
    manifest: body.manifest,
    messages: body.messages,
    thread_suffix: suffix,
    model: body.model ?? null,
    template: body.template ?? null,
    template_args: body.template_args ?? [],
    max_tokens: null,
    temperature: null,
    include_usage: false,
    response: null,
  };
}

export const chatRoutes = [chat, chatStream, chatContinue, chatAbort, chatReattach];
