import type { TSchema } from "typebox";
import { Type } from "../../bus/type.ts";
import type { StreamEvent } from "../stream-event.ts";

// Schemas of the events of POST /agui/{manifest}, for the reference.

const Text = Type.String();
const ids = { threadId: Text, runId: Text };
const exampleIds = { threadId: "tour", runId: "run-1" };
const messageId = "msg_3f9c1e7a5b2d4806a1c3e5f70918273d_0";
const toolCallId = "call_7ec51edca70bd9be9f80871bd7ca55d2";

/** Returns the declaration of a group of events with the same fields. */
function declared(
  component: string,
  description: string,
  types: readonly string[],
  fields: Readonly<Record<string, TSchema>>,
  example: object,
): StreamEvent {
  const schema = Type.Object(
    { type: Type.Enum(types), ...fields },
    { description, additionalProperties: true, examples: [{ type: types[0], ...example }] },
  );
  return { component, schema, line: null };
}

/** The events of a run in AG-UI. */
export const aguiEvents: readonly StreamEvent[] = [
  declared("AguiRunStarted", "The run starts.", ["RUN_STARTED"], ids, exampleIds),
  declared(
    "AguiMessageStart",
    "A text of the agent, or its reasoning, starts.",
    ["TEXT_MESSAGE_START", "REASONING_START", "REASONING_MESSAGE_START"],
    { messageId: Text, role: Type.Optional(Text) },
    { messageId, role: "assistant" },
  ),
  declared(
    "AguiMessageContent",
    "A piece of the text or the reasoning.",
    ["TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT"],
    { messageId: Text, delta: Text },
    { messageId, delta: "6 * 7 = 42" },
  ),
  declared(
    "AguiMessageEnd",
    "The text or the reasoning ends.",
    ["TEXT_MESSAGE_END", "REASONING_MESSAGE_END", "REASONING_END"],
    { messageId: Text },
    { messageId },
  ),
  declared(
    "AguiToolCall",
    "A tool call: its start, its arguments as JSON, the end of the arguments, and its result.",
    ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"],
    {
      toolCallId: Text,
      ...{ toolCallName: Type.Optional(Text), delta: Type.Optional(Text) },
      ...{ messageId: Type.Optional(Text), content: Type.Optional(Text), role: Type.Optional(Text) },
    },
    { toolCallId, toolCallName: "calculator" },
  ),
  declared(
    "AguiCustom",
    "A native frame that the protocol has no event for, such as `approval_required`: its name and its data.",
    ["CUSTOM"],
    { name: Text, value: Type.Unknown() },
    { name: "todo_updated", value: { todos: [] } },
  ),
  declared(
    "AguiRunFinished",
    "The run has ended. Calls without a result are for the client.",
    ["RUN_FINISHED"],
    {
      ...ids,
      result: Type.Object({ stop_reason: Text }),
      outcome: Type.Object({ type: Type.Enum(["success", "cancelled"]) }),
    },
    { ...exampleIds, result: { stop_reason: "end_turn" }, outcome: { type: "success" } },
  ),
  declared(
    "AguiRunError",
    "The run has failed.",
    ["RUN_ERROR"],
    { message: Text, code: Text },
    { message: "The model provider answered 503.", code: "model_unavailable" },
  ),
];
