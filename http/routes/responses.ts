import { runAddress, threadAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { ExpandedSize } from "../../bus/expanded-size.ts";
import { responseKeyPlace } from "../../bus/frames/entry-points.ts";
import { responseId, responseThread } from "../../bus/frames/response-object.ts";
import { toJsonText } from "../../bus/protocol/json-text.ts";
import { Type } from "../../bus/type.ts";
import { idempotencyKey, keyScope } from "../../storage/tables/idempotency.ts";
import type { HttpContext } from "../context.ts";
import { openAiRefusal } from "../exchange/openai-refusal.ts";
import { json, type Reply } from "../exchange/reply.ts";
import { follow, goOn } from "../openai/response-chain.ts";
import { inputMessages, ofInput } from "../openai/response-input.ts";
import { readInput } from "../openai/response-inputs.ts";
import { withReferred } from "../openai/response-items.ts";
import { openResponseStream } from "../openai/response-stream.ts";
import { findResponse, readResponse } from "../openai/stored-response.ts";
import { actorFails, type RouteRequest, route } from "../route.ts";
import { durableRun } from "../run-record.ts";
import { nullable } from "../schemas/common.ts";
import { completedResponse, responseEvents, responseExample } from "../schemas/openai-events.ts";
import { ResponseObject, ResponseRequest } from "../schemas/responses.ts";
import { streamExample } from "../stream-event.ts";
import { replayedHeader } from "../streams/logged-run.ts";
import { acceptRun, answerTurn, checkIdempotencyKey, streamTurn, type TurnFields } from "../streams/turns.ts";
import { openAiTag } from "../tags.ts";
import { namingThread } from "../thread-header.ts";
import { isNothing, responseOptions } from "../turn-options.ts";
import { IdempotencyKey, idempotencyFails, turnFails } from "./chat.ts";

// The Responses API of OpenAI. A stored response is a run of a conversation. The first response of a chain starts the conversation, and a
// response with previous_response_id continues it.

/** Max time for a stopped run to write its last batch. */
const cancelMs = 60_000;

const ResponseParams = Type.Object({
  response_id: Type.String({
    description: "`resp_…`",
    examples: ["resp_bae6a62a79776de78064e933ce7c456b0000000000000000"],
  }),
});

const create = route({
  method: "POST",
  path: "/v1/responses",
  summary:
    "A turn in OpenAI's Responses protocol: the model is a manifest, previous_response_id continues a conversation.",
  tag: openAiTag,
  access: "chat:write",
  tenancy: [
    { of: "manifest", body: (id) => ({ model: id, input: "hi" }) },
    { of: "response", body: (id) => ({ model: "quick", input: "hi", previous_response_id: id }) },
  ],
  drives: "turn",
  headers: Type.Object({ "Idempotency-Key": IdempotencyKey }),
  body: ResponseRequest,
  reply: { description: "A response.", schema: ResponseObject },
  otherReplies: [
    {
      description: "With `stream` its events.",
      contentType: "text/event-stream",
      events: responseEvents,
      example: streamExample(responseExample, false),
    },
  ],
  fails: [
    ...turnFails,
    ...idempotencyFails,
    "idempotency_key_requires_thread_id",
    "unknown_response",
    "unsupported_parameter",
    "model_provider_error",
    "run_goes_on",
    "run_not_found",
  ],
  refusal: openAiRefusal,
  async handle(request, context) {
    const { body, principal } = request;
    refuseUnsupported(body);
    const options = responseOptions(body);
    const size = new ExpandedSize(request.rawBody.length);
    const messages = inputMessages(await withReferred(body.input, context.store.tenant(principal.tenant_id), size));
    const previous = body.previous_response_id ?? null;
    const store = body.store !== false;
    // A response that is not stored has no log that could continue a stored one.
    if (previous !== null && !store) throw unsupported("previous_response_id");
    const streams = body.stream === true;
    const key = request.exchange.head.headers["idempotency-key"];
    checkIdempotencyKey(key, streams, store ? "" : null);
    const isAgain = key !== undefined && (await isKnownKey(key, request, context));
    // A repeated request does not follow a previous response: it gets the answer of the first request.
    const goesOn = previous !== null && !isAgain;
    const before = goesOn ? await follow(context.store.tenant(principal.tenant_id), previous) : null;
    const fields: TurnFields = {
      surface: streams ? "responses_stream" : "responses",
      manifest: body.model,
      messages,
      bytes: size.bytes,
      thread_suffix: store ? (before?.suffix ?? responseThread(context.env.id())) : null,
      model: null,
      template: null,
      template_args: [],
      max_tokens: body.max_output_tokens ?? null,
      temperature: body.temperature ?? null,
      include_usage: false,
      response: {
        previous_response_id: previous,
        instructions: body.instructions ?? null,
        metadata: body.metadata ?? {},
        max_output_tokens: body.max_output_tokens ?? null,
        temperature: body.temperature ?? null,
        store,
        ...(body.background === true && { background: true as const }),
        follows: before?.follows ?? null,
      },
      ...(options && { options: toJsonText(options) }),
    };
    const plain = request as RouteRequest<unknown, unknown, unknown>;
    const answer = async (asked: TurnFields): Promise<Reply> => {
      if (body.background === true)
        return inBackground(await acceptRun(plain, asked, context), streams, request, context);
      return streams ? streamTurn(plain, asked, context) : answerTurn(plain, asked, context);
    };
    const run = async (asked: TurnFields): Promise<Reply> =>
      namingThread(await answer(asked), principal.tenant_id, asked.thread_suffix);
    try {
      if (before === null) return await run(fields);
      return await goOn(before, fields, run, principal.tenant_id, context);
    } catch (error) {
      throw ofInput(error);
    }
  },
});

const retrieve = route({
  method: "GET",
  path: "/v1/responses/{response_id}",
  summary: "A stored response, also while it is in progress.",
  tag: openAiTag,
  access: "chat:read",
  tenancy: [{ of: "response" }],
  params: ResponseParams,
  query: Type.Object({
    stream: Type.Optional(
      Type.Boolean({
        description: "Stream its events; only for a response with `background`.",
      }),
    ),
    starting_after: Type.Optional(
      Type.Integer({ minimum: 0, description: "With `stream`: the number of the last received event." }),
    ),
  }),
  reply: { description: "The response, as far as it is in the log.", schema: ResponseObject },
  otherReplies: [
    {
      description: "With `stream` its events.",
      contentType: "text/event-stream",
      events: responseEvents,
      example: streamExample(responseExample, false),
    },
  ],
  fails: ["unknown_response", "unsupported_parameter", "storage_unavailable"],
  refusal: openAiRefusal,
  async handle({ params, query, principal, requestId }, context) {
    const store = context.store.tenant(principal.tenant_id);
    const found = await findResponse(store, params.response_id);
    if (query.stream !== true) return json(await readResponse(store, found));
    if (found.asked.background !== true) throw unsupported("stream");
    return openResponseStream(context, principal.tenant_id, found.id, query.starting_after ?? -1, requestId);
  },
});

const InputItem = Type.Object(
  { id: Type.String(), type: Type.String() },
  {
    additionalProperties: true,
    examples: [
      {
        ...{
          id: `msg_${completedResponse.id.slice("resp_".length)}_in0`,
          type: "message",
          role: "user",
          status: "completed",
        },
        content: [{ type: "input_text", text: "What is 6 * 7?" }],
      },
    ],
  },
);

const exampleItem = { examples: [`msg_${completedResponse.id.slice("resp_".length)}_in0`] };

const listInput = route({
  method: "GET",
  path: "/v1/responses/{response_id}/input_items",
  summary: "The input of a response, in pages.",
  tag: openAiTag,
  access: "chat:read",
  tenancy: [{ of: "response" }],
  params: ResponseParams,
  query: Type.Object({
    after: Type.Optional(Type.String({ description: "The id of the last item of the previous page." })),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, description: "Default: 20." })),
    order: Type.Optional(Type.Enum(["asc", "desc"], { description: "Default: desc, the last item first." })),
    include: Type.Optional(Type.String({ description: "Accepted without effect." })),
  }),
  reply: {
    description: "The items of its own input, without those of earlier responses.",
    schema: Type.Object({
      object: Type.String({ examples: ["list"] }),
      data: Type.Array(InputItem),
      first_id: nullable(Type.String(exampleItem)),
      last_id: nullable(Type.String(exampleItem)),
      has_more: Type.Boolean({ examples: [false] }),
    }),
  },
  fails: ["unknown_response", "invalid_cursor", "storage_unavailable"],
  refusal: openAiRefusal,
  async handle({ params, query, principal }, context) {
    const store = context.store.tenant(principal.tenant_id);
    const items = await readInput(store, await findResponse(store, params.response_id));
    if (query.order !== "asc") items.reverse();
    const from = query.after === undefined ? 0 : items.findIndex(({ id }) => id === query.after) + 1;
    if (query.after !== undefined && from === 0) throw new SvcError("invalid_cursor");
    const data = items.slice(from, from + (query.limit ?? 20));
    const has_more = from + data.length < items.length;
    return json({ object: "list", data, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null, has_more });
  },
});

const cancel = route({
  method: "POST",
  path: "/v1/responses/{response_id}/cancel",
  summary: "Stops a response in progress.",
  tag: openAiTag,
  access: "chat:write",
  tenancy: [{ of: "response" }],
  params: ResponseParams,
  reply: { description: "The stopped response; an ended one is unchanged.", schema: ResponseObject },
  fails: ["unknown_response", ...actorFails],
  refusal: openAiRefusal,
  async handle({ params, principal }, context) {
    const { tenant_id } = principal;
    const store = context.store.tenant(tenant_id);
    const found = await findResponse(store, params.response_id);
    if (found.run.ended_at !== null) return json(await readResponse(store, found));
    const run = runAddress(tenant_id, found.thread.suffix, found.run.run_id);
    await context.bus.ask(run, "abort", { reason: "client" }, { deadlineMs: cancelMs });
    return json(await readResponse(store, await findResponse(store, params.response_id)));
  },
});

const erase = route({
  method: "DELETE",
  path: "/v1/responses/{response_id}",
  summary: "Deletes a response; the last one of a conversation deletes the conversation.",
  tag: openAiTag,
  access: "chat:write",
  tenancy: [{ of: "response" }],
  params: ResponseParams,
  reply: {
    description: "Its text stays in the conversation while other responses continue it.",
    example: { id: completedResponse.id, object: "response.deleted" },
    schema: Type.Object({
      id: Type.String({ examples: ["0001a0c346707e521b1f7bf6eb5b5344"] }),
      object: Type.String({ examples: ["list"] }),
      deleted: Type.Boolean(),
    }),
  },
  fails: ["unknown_response", "run_in_progress", ...actorFails],
  refusal: openAiRefusal,
  async handle({ params, principal }, context) {
    const { tenant_id } = principal;
    const { id, thread, run } = await findResponse(context.store.tenant(tenant_id), params.response_id);
    const address = threadAddress(tenant_id, thread.suffix);
    const { others } = await context.bus.ask(address, "forget", { run_key: run.run_key });
    if (!others) await eraseUnused(context.bus.ask(address, "erase", {}));
    return json({ id, object: "response", deleted: true });
  },
});

/** Erases the conversation, unless another entry point such as /chat has started a run on it by now. */
async function eraseUnused(erased: Promise<unknown>): Promise<void> {
  try {
    await erased;
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== "run_in_progress") throw error;
  }
}

/** True if a request with this key was accepted before. */
async function isKnownKey(
  key: string,
  { principal }: Pick<RouteRequest<unknown, unknown, unknown>, "principal">,
  { store, env }: Pick<HttpContext, "store" | "env">,
): Promise<boolean> {
  const scope = keyScope(responseKeyPlace(), principal, key);
  return (await idempotencyKey(store.tenant(principal.tenant_id), scope, env.now())) !== undefined;
}

/** Returns the answer to a background request: the response as far as it is in the log, or its stream. */
async function inBackground(
  { run: { resume_token: token }, replayed }: Awaited<ReturnType<typeof acceptRun>>,
  streams: boolean,
  { principal: { tenant_id }, requestId }: Pick<RouteRequest<unknown, unknown, unknown>, "principal" | "requestId">,
  context: HttpContext,
): Promise<Reply> {
  const store = context.store.tenant(tenant_id);
  const accepted = await durableRun(store, token);
  if (accepted === null) throw new SvcError("actor_lost");
  const { durable, run } = accepted;
  const id = responseId(durable.suffix, token, run.first_seq ?? 0);
  const reply = streams
    ? await openResponseStream(context, tenant_id, id, -1, requestId)
    : json(await readResponse(store, await findResponse(store, id)));
  const headers = { ...reply.headers, ...(replayed && replayedHeader) };
  return namingThread({ ...reply, headers }, tenant_id, durable.suffix);
}

type ResponseBody = Readonly<Record<string, unknown>>;

/** Refuses parameters that would change the answer but are not supported. */
function refuseUnsupported(body: ResponseBody): void {
  // A background response can only be read from the store.
  if (body.background === true && body.store === false) throw unsupported("background");
  for (const param of ["conversation", "prompt", "max_tool_calls"])
    if (!isNothing(body[param])) throw unsupported(param);
  if (!isNothing(body.top_logprobs) && body.top_logprobs !== 0) throw unsupported("top_logprobs");
}

function unsupported(param: string): SvcError {
  return new SvcError("unsupported_parameter", { subject: param });
}

export const responseRoutes = [create, retrieve, listInput, cancel, erase];
