import { messageItem, responseObject } from "../../bus/frames/response-object.ts";
import { Type } from "../../bus/type.ts";
import type { StreamEvent } from "../stream-event.ts";
import { nullable } from "./common.ts";

// The stream events of the OpenAI protocol, for the reference.

const Text = Type.String();
const Index = Type.Integer({ minimum: 0 });
const open = { additionalProperties: true };
const responseId = "resp_bae6a62a79776de78064e933ce7c456b0000000000000000";
const itemId = "msg_bae6a62a79776de78064e933ce7c456b0000000000000000_0";

/** A completed response. */
export const completedResponse = responseObject(
  {
    ...{ id: responseId, created_at: 1795348800, model: "quick", options: null },
    asked: {
      instructions: null,
      previous_response_id: null,
      store: true,
      metadata: {},
      max_output_tokens: null,
      temperature: null,
    },
  },
  {
    ...{
      status: "completed",
      stop_reason: "end_turn",
      failure: null,
      output: [messageItem(itemId, "6 * 7 = 42", "completed")],
    },
    usage: {
      ...{ input: 1186, output: 55, cacheRead: 0, cacheWrite: 0, totalTokens: 1241 },
      cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
    },
  },
);

const Failure = Type.Object({ message: Text, type: Text, param: nullable(Text), code: nullable(Text) });

/** The chunks of POST /v1/chat/completions; a failure after the 200 is a chunk without choices. */
export const completionEvents: readonly StreamEvent[] = [
  {
    component: "ChatCompletionChunk",
    line: null,
    schema: Type.Object(
      {
        id: Text,
        object: Type.Literal("chat.completion.chunk"),
        created: Type.Integer(),
        model: Type.String({ description: "The manifest's name." }),
        choices: Type.Array(
          Type.Object({
            index: Index,
            delta: Type.Object(
              { role: Type.Optional(Type.Literal("assistant")), content: Type.Optional(Text) },
              { additionalProperties: true },
            ),
            logprobs: Type.Null(),
            finish_reason: nullable(Type.Enum(["stop", "length", "tool_calls", "content_filter"])),
          }),
          { maxItems: 1, description: "Empty in the chunk with the usage." },
        ),
        usage: Type.Optional(nullable(Type.Object({}, open))),
      },
      {
        description: "A piece of the reply.",
        examples: [
          {
            ...{ id: "chatcmpl-d4e865c85a388aa550a42c21", object: "chat.completion.chunk", created: 1795348800 },
            model: "quick",
            choices: [{ index: 0, delta: { content: "6 * 7 = 42" }, logprobs: null, finish_reason: null }],
          },
        ],
      },
    ),
  },
  {
    component: "ChatCompletionFailure",
    line: null,
    schema: Type.Object(
      { error: Failure },
      {
        description: "The turn failed after its stream had started.",
        examples: [
          {
            error: {
              ...{ message: "The model provider answered 503.", type: "model_gateway_error" },
              ...{ param: null, code: "model_unavailable" },
            },
          },
        ],
      },
    ),
  },
];

/** Returns the declaration of an event of /v1/responses: its types, sequence number and further fields. */
function responseEvent(
  component: string,
  description: string,
  types: readonly string[],
  fields: object,
  example: object,
) {
  const schema = Type.Object(
    { type: Type.Enum([...types]), sequence_number: Index, ...fields },
    { description, examples: [{ type: types[0], sequence_number: 0, ...example }] },
  );
  return { component, schema, line: "type" } as const satisfies StreamEvent;
}

const place = { item_id: Text, output_index: Index, content_index: Index };
const placeExample = { item_id: itemId, output_index: 0, content_index: 0 };
const response = Type.Object({ id: Text, object: Type.Literal("response"), status: Text }, open);
const logprobs = Type.Optional(Type.Array(Type.Unknown()));
const words = ["output_text", "reasoning_text"];

/** The events of /v1/responses. */
export const responseEvents: readonly StreamEvent[] = [
  responseEvent(
    "ResponseStateEvent",
    "The response starts, is in progress, or has ended.",
    ["created", "queued", "in_progress", "completed", "incomplete", "failed"].map((state) => `response.${state}`),
    { response },
    { response: { id: responseId, object: "response", status: "in_progress" } },
  ),
  responseEvent(
    "ResponseItemEvent",
    "An item of the output starts, or is complete.",
    ["response.output_item.added", "response.output_item.done"],
    { output_index: Index, item: Type.Object({ id: Text, type: Text }, open) },
    {
      output_index: 0,
      item: { id: itemId, type: "message", role: "assistant", status: "in_progress", content: [] },
    },
  ),
  responseEvent(
    "ResponsePartEvent",
    "A part of an item starts, or is complete.",
    ["response.content_part.added", "response.content_part.done"],
    { ...place, part: Type.Object({ type: Text, text: Text }, open) },
    { ...placeExample, part: { type: "output_text", text: "", annotations: [], logprobs: [] } },
  ),
  responseEvent(
    "ResponseTextDeltaEvent",
    "A piece of the reply, or of the model's reasoning.",
    words.map((kind) => `response.${kind}.delta`),
    { ...place, delta: Text, logprobs },
    { ...placeExample, delta: "6 * 7 = 42", logprobs: [] },
  ),
  responseEvent(
    "ResponseTextDoneEvent",
    "The complete text of a part.",
    words.map((kind) => `response.${kind}.done`),
    { ...place, text: Text, logprobs },
    { ...placeExample, text: "6 * 7 = 42", logprobs: [] },
  ),
  responseEvent(
    "ResponseCallEvent",
    "The arguments of a call for the client.",
    ["response.function_call_arguments.delta", "response.function_call_arguments.done"],
    {
      ...{ item_id: Text, output_index: Index, name: Type.Optional(Text) },
      ...{ delta: Type.Optional(Text), arguments: Type.Optional(Text) },
    },
    { item_id: "fc_bae6a62a79776de78064e933ce7c456b0000000000000000_1", output_index: 1, delta: '{"page":"orders"}' },
  ),
  responseEvent(
    "ResponseErrorEvent",
    "A failure outside the model.",
    ["error"],
    { code: nullable(Text), message: Text, param: nullable(Text) },
    { code: "storage_unavailable", message: "storage_unavailable (request 7f3c2b1a)", param: null },
  ),
];

/** The stream of a response with one item. */
export const responseExample: readonly StreamEvent[] = responseEvents.slice(0, 5);
