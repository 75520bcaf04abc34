import type { TSchema } from "typebox";
import { frame } from "../../bus/frames/frames.ts";
import { Type } from "../../bus/type.ts";
import { exampleOf } from "../example.ts";
import type { StreamEvent } from "../stream-event.ts";
import { TokenUsage } from "./chat.ts";
import { nullable } from "./common.ts";
import { WorkflowRun } from "./workflows.ts";

// Schemas of the native stream frames, for the reference. bus/frames/ and the runs make the frames; the tests validate every stream that
// they read against these schemas.

const callId = "call_7ec51edca70bd9be9f80871bd7ca55d2";
const runId = "3f9c1e7a5b2d4806a1c3e5f70918273d";
const eventId = "a0ba44739d83420b416a000000000004";
const moment = 1795348800000;
const threadId = "default:tour";
const question = { role: "user", content: "What is 6 * 7?" };
const answer = { role: "assistant", content: "6 * 7 = 42" };
const free = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
const usageExample = { ...free, input: 1186, output: 55, totalTokens: 674, cost: { ...free, total: 0 } };
const open = { additionalProperties: true };

const Text = Type.String();
const Flag = Type.Boolean();
const Count = Type.Integer({ minimum: 0 });
const Message = Type.Object({ role: Text, content: Type.Unknown() }, open);
const Reply = nullable(Type.Object({ role: Type.Literal("assistant"), content: Text }));
const StopReason = Type.Enum([
  ...["end_turn", "tool_use", "max_tokens", "max_turns", "stop_sequence", "pause_turn", "refusal", "unknown"],
]);
const Token = { resume_token: Text, fiber_id: Text };
const Call = { name: Text, id: Type.String({ description: "Id of the call, the same in all its frames." }) };
const Delta = { chunk: Type.Object({ content: Text }), delta: Text };

/** Returns the declaration of a frame with its data schema and an example. */
function native(name: string, description: string, data: TSchema, example: object): StreamEvent {
  const wire = frame(name, example, -1);
  const schema = Type.Object(
    {
      event: Type.Literal(name),
      type: Type.Literal(name),
      data,
      text: Type.String({ description: "Text of the model, if the frame has any; otherwise empty." }),
    },
    { description, examples: [JSON.parse(wire.slice("data: ".length))] },
  );
  const words = name.split("_").map((word) => word.charAt(0).toUpperCase() + word.slice(1));
  return { component: `${words.join("")}Frame`, schema, line: null };
}

/** The frames by name. */
export const frames = {
  session_progress: native(
    "session_progress",
    "Progress of the turn: `phase` turn, compaction or held; or a piece of the model's text, which the next frame repeats. With `replay` a client discards its uncommitted text.",
    Type.Union([
      Type.Object({ phase: Type.Literal("turn"), replay: Type.Optional(Flag), truncated: Type.Optional(Flag) }),
      Type.Object({
        phase: Type.Literal("compaction"),
        reason: Type.Enum(["threshold", "overflow", "after_turn", "manual"]),
      }),
      Type.Object({ phase: Type.Literal("held") }),
      Type.Object({
        progress: Type.Object({
          type: Type.Literal("assistant_delta"),
          kind: Type.Enum(["text", "thinking"]),
          delta: Text,
        }),
      }),
    ]),
    { phase: "turn" },
  ),
  text_delta: native("text_delta", "A piece of the reply.", Type.Object(Delta), {
    chunk: { content: "6 * 7 = 42" },
    delta: "6 * 7 = 42",
  }),
  thinking_delta: native("thinking_delta", "A piece of the model's reasoning.", Type.Object(Delta), {
    chunk: { content: "The calculator knows." },
    delta: "The calculator knows.",
  }),
  tool_start: native("tool_start", "A tool call starts.", Type.Object({ ...Call, input: Type.Unknown() }), {
    name: "calculator",
    input: { expression: "6 * 7" },
    id: callId,
  }),
  tool_execution_update: native(
    "tool_execution_update",
    "Whether the call runs, and how far it has come where its tool says so.",
    Type.Object({
      ...Call,
      status: Type.Enum(["running", "complete"]),
      progress: Type.Optional(
        Type.Object({ done: Type.Number(), total: Type.Optional(Type.Number()), message: Type.Optional(Text) }),
      ),
    }),
    { name: "calculator", id: callId, status: "running" },
  ),
  tool_end: native(
    "tool_end",
    "A tool call has ended; this is the result that the model reads.",
    Type.Object({
      ...Call,
      output: Text,
      attachments: Type.Optional(Type.Array(Type.Object({ url: Text, media_type: Text }))),
      sources: Type.Optional(
        Type.Array(Type.Object({ doc_id: Text, title: Text, source: Text, chunk_index: Type.Integer() }), {
          description: "The parts of documents that the result quotes.",
        }),
      ),
    }),
    { name: "calculator", output: "42", id: callId },
  ),
  tool_request: native(
    "tool_request",
    "The client must carry out this call, and send the result with POST /chat/tool_result.",
    Type.Object({ ...Call, args: Type.Unknown(), thread_id: Text, transport: Type.Literal("client") }),
    { id: callId, name: "open_page", args: { page: "orders" }, thread_id: threadId, transport: "client" },
  ),
  approval_required: native(
    "approval_required",
    "The call waits for an approval: POST /approvals/{approval_id}/decide.",
    Type.Object({
      ...{ approval_id: Text, tool_name: Text, args: Type.Object({}, open), evidence: Type.Object({}, open) },
      ...{ rule_id: Text, reason: Text, thread_id: Text, tool_call_id: Text, expires_at: nullable(Count) },
    }),
    {
      ...{ approval_id: "5d41402abc4b2a76b9719d911017c592", tool_name: "calculator", args: { expression: "6 * 7" } },
      evidence: { effect: "read", risk: "reads", cost_usd: 0, tool_calls: 1 },
      ...{ rule_id: "look-first", reason: "Calculations are looked at first.", thread_id: threadId },
      ...{ tool_call_id: callId, expires_at: moment },
    },
  ),
  ui_request: native(
    "ui_request",
    "The agent asks the user a question: answer with POST /chat/ui.",
    Type.Object({
      ...{ request_id: Type.String({ maxLength: 64 }), kind: Type.Enum(["select", "confirm", "input"]), prompt: Text },
      ...{ default: Type.Unknown(), thread_id: Text, options: Type.Unknown(), metadata: Type.Unknown() },
    }),
    {
      ...{ request_id: "question-1", kind: "select", prompt: "Which list?", default: null, thread_id: threadId },
      ...{ options: ["today", "later"], metadata: {} },
    },
  ),
  steer: native("steer", "A message to the running turn.", Type.Object({ content: Text }), {
    content: "Show the steps, too.",
  }),
  follow_up: native("follow_up", "A message for the end of the turn.", Type.Object({ content: Text }), {
    content: "And 42 / 5?",
  }),
  workspace_note: native(
    "workspace_note",
    "A person has changed a file of the workspace, or a plan.",
    Type.Union([
      Type.Object({
        ...{ path: Text, op: Type.Enum(["write", "delete", "rename"]) },
        ...{ bytes: Type.Optional(Count), to_path: Type.Optional(Text) },
      }),
      Type.Object({ kind: Type.Literal("plan"), plan_id: Text, updated_at: Count }),
    ]),
    { path: "notes/today.md", op: "write", bytes: 120 },
  ),
  todo_updated: native(
    "todo_updated",
    "The agent's current to-do list.",
    Type.Object({
      todos: Type.Array(
        Type.Object({
          ...{ id: Text, content: Text, status: Type.Enum(["pending", "in_progress", "completed"]), active_form: Text },
        }),
      ),
    }),
    { todos: [{ id: "1", content: "Pack", status: "in_progress", active_form: "Packing" }] },
  ),
  subagent_start: native(
    "subagent_start",
    "A sub-agent starts to work.",
    Type.Object({
      ...{ agent: Text, background: Flag, task_id: Type.Optional(Text), thread_id: Type.Optional(Text) },
    }),
    { agent: "researcher", background: false },
  ),
  subagent_end: native(
    "subagent_end",
    "The sub-agent has ended.",
    Type.Object({ agent: Text, outcome: Type.Enum(["ok", "error"]) }),
    { agent: "researcher", outcome: "ok" },
  ),
  permission_mode_changed: native(
    "permission_mode_changed",
    "The permission mode of the thread has changed.",
    Type.Object({ mode: Type.Enum(["default", "plan", "accept_edits", "bypass"]) }),
    { mode: "plan" },
  ),
  max_turns: native("max_turns", "The turn ends at its step limit.", Type.Object({ limit: Count }), { limit: 20 }),
  aborted: native("aborted", "The turn was stopped.", Type.Object({ thread_id: Text }), { thread_id: threadId }),
  on_error: native("on_error", "The model failed; the message is for people.", Type.Object({ message: Text }), {
    message: "The model provider answered 503.",
  }),
  on_chain_end: native("on_chain_end", "The turn is over.", Type.Object({ output: Text }), {
    output: "Run(stop_reason=end_turn)",
  }),
  done: native(
    "done",
    "The reply as a whole, with the messages that led to it: the last frame of a turn.",
    Type.Object({
      final: Reply,
      messages: Type.Array(Message),
      stop_reason: StopReason,
      usage: Type.Optional(TokenUsage),
    }),
    { final: answer, messages: [question, answer], stop_reason: "end_turn", usage: usageExample },
  ),
  run_accepted: native(
    "run_accepted",
    "A durable run was stored, and continues without the client.",
    Type.Object({ ...Token, status: Type.Literal("accepted"), expires_at: Text, thread_id: nullable(Text) }),
    {
      ...{ status: "accepted", resume_token: runId, fiber_id: runId, expires_at: "2026-11-24T12:00:00.000Z" },
      thread_id: threadId,
    },
  ),
  run_status: native(
    "run_status",
    "The status of a durable run.",
    Type.Object({
      ...Token,
      status: Type.Enum(["accepted", "running", "waiting", "completed", "failed", "expired", "dead"]),
      ...{ attempt: Count, step: Count, updated_at: Count },
      waiting_on: nullable(
        Type.Object({
          kind: Type.Enum(["approval", "tool", "ui", "queue", "task", "retry", "release"]),
          id: Text,
          until: nullable(Count),
        }),
      ),
    }),
    {
      ...{ status: "running", fiber_id: runId, resume_token: runId, attempt: 0, step: 1 },
      ...{ waiting_on: null, updated_at: moment },
    },
  ),
  workflow_run: native(
    "workflow_run",
    "A version of a run of a workflow; its `id:` is the version.",
    WorkflowRun,
    exampleOf(WorkflowRun) as object,
  ),
  final: native(
    "final",
    "The end of a durable run, with its record: the last frame of its stream.",
    Type.Object({
      ...{ status: Type.Literal("completed"), final: Reply, error: Type.Null(), stop_reason: StopReason },
      usage: Type.Optional(TokenUsage),
      run: Type.Object({ ...Token, status: Type.Literal("completed"), expires_at: Text, manifest_id: Text }, open),
    }),
    {
      ...{ status: "completed", final: answer, error: null, stop_reason: "end_turn", usage: usageExample },
      run: {
        ...{ status: "completed", fiber_id: runId, resume_token: runId, expires_at: "2026-11-24T12:00:00.000Z" },
        ...{ final: answer, error: null, manifest_id: "quick" },
      },
    },
  ),
  session_event: native(
    "session_event",
    "An event of the log, as it was committed.",
    Type.Object(
      {
        ...{ id: Text, seq: Count, kind: Text, role: nullable(Text), content: Text, name: nullable(Text) },
        ...{ tool_call_id: Type.Optional(Text), tool_calls: Type.Optional(Type.Array(Type.Object({}, open))) },
        metadata: Type.Optional(Type.Object({}, open)),
      },
      open,
    ),
    { id: eventId, seq: 4, kind: "message", role: "assistant", content: "6 * 7 = 42", name: null },
  ),
  snapshot: native(
    "snapshot",
    "The current thread, for a client that connects without Last-Event-ID.",
    Type.Object({ id: Text, transcript: Type.Array(Type.Object({}, open)) }, open),
    { id: threadId, transcript: [], phase: "idle", leafId: "" },
  ),
} as const satisfies Readonly<Record<string, StreamEvent>>;

/** Reports a failure outside the model after the 200 was sent. */
const failure: StreamEvent = {
  component: "ErrorFrame",
  line: "error",
  schema: Type.Object(
    {
      error: Type.Object({
        message: Type.String({ maxLength: 200 }),
        type: Type.Enum(["stream_error", "run_error", "blocked_by_hook"]),
      }),
    },
    {
      description: "A failure outside the model, or a durable run without an answer.",
      examples: [{ error: { message: "storage_unavailable (request 7f3c2b1a)", type: "stream_error" } }],
    },
  ),
};

const { run_accepted, run_status, workflow_run, final, session_event, snapshot, ...ofTurn } = frames;

/** The events in the stream of a turn, including those of a durable run. */
export const turnEvents: readonly StreamEvent[] = [...Object.values(ofTurn), run_accepted, run_status, final, failure];
/** Frames for the stream that started the turn only: other listeners get the same facts from log events. */
const ofStarters: ReadonlySet<StreamEvent> = new Set([
  ...[frames.tool_start, frames.tool_execution_update, frames.tool_end, frames.max_turns],
  ...[frames.aborted, frames.on_chain_end, frames.done, workflow_run],
]);
/** The events in a stream that watches a conversation or a durable run. */
export const tailEvents: readonly StreamEvent[] = [
  ...Object.values(frames).filter((event) => !ofStarters.has(event)),
  failure,
];

/** The frames of the stream of a run of a workflow. */
export const workflowEvents: readonly StreamEvent[] = [workflow_run];

/** A turn that calls a tool. */
export const turnExample: readonly StreamEvent[] = [
  ...[frames.session_progress, frames.tool_start, frames.tool_execution_update, frames.tool_end],
  ...[frames.text_delta, frames.on_chain_end, frames.done],
];
export const tailExample: readonly StreamEvent[] = [frames.snapshot, frames.session_event];
export const runExample: readonly StreamEvent[] = [run_accepted, run_status, frames.text_delta, final];
