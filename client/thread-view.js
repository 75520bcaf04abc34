/** @import { FrameOf, ThreadAsk, ThreadMessage, ThreadView } from "./types.ts" */

/** Max messages that a view shows: the newest. */
const messagesMax = 2_000;

/** @type {ThreadView} */
export const loadingThread = {
  ...{ isLoading: true, isConnected: false, isRunning: false, error: null, manifest: null, name: null },
  ...{ messages: [], text: "", thinking: "", asks: [], todos: [] },
};

/**
 * Returns what a frame changes in the view of a thread.
 * @param {ThreadView} view
 * @param {FrameOf<"GET /chat/stream/{thread_id}">} frame
 * @returns {Partial<ThreadView>}
 */
export function foldFrame(view, frame) {
  switch (frame.event) {
    case "snapshot":
      return fromSnapshot(frame.data);
    case "session_event":
      return withEvent(view, frame.data);
    case "session_progress":
      if ("phase" in frame.data && frame.data.phase === "turn")
        return { isRunning: true, ...(frame.data.replay && unsaid) };
      return {};
    case "text_delta":
      return { text: view.text + frame.data.delta, isRunning: true };
    case "thinking_delta":
      return { thinking: view.thinking + frame.data.delta, isRunning: true };
    case "approval_required":
      return {
        asks: withAsk(view, {
          kind: "approval",
          id: frame.data.approval_id,
          call: frame.data.tool_call_id,
          data: frame.data,
        }),
      };
    case "ui_request":
      return {
        asks: withAsk(view, {
          kind: "question",
          id: frame.data.request_id,
          call: callOf(frame.data.metadata),
          data: frame.data,
        }),
      };
    case "tool_request":
      return { asks: withAsk(view, { kind: "tool", id: frame.data.id, call: frame.data.id, data: frame.data }) };
    case "todo_updated":
      return { todos: frame.data.todos };
    case "on_error":
      return { ...unsaid, isRunning: false };
    case "run_status": {
      const { status } = frame.data;
      return { isRunning: status === "running" || status === "accepted" || status === "waiting" };
    }
    default:
      return {};
  }
}

const unsaid = { text: "", thinking: "" };

/**
 * @param {any} snapshot
 * @returns {Partial<ThreadView>}
 */
function fromSnapshot({ transcript, phase, manifest, name, todos }) {
  /** @type {ThreadMessage[]} */
  const messages = [];
  for (const { toolCallId, toolCalls, ...item } of transcript)
    addEvent(messages, { ...item, tool_call_id: toolCallId, tool_calls: toolCalls });
  const isRunning = phase === "turn" || phase === "retry";
  const shown = messages.slice(-messagesMax);
  return { isLoading: false, messages: shown, isRunning, manifest, name, todos: todos ?? [], asks: [], ...unsaid };
}

/**
 * @param {ThreadView} view
 * @param {any} event
 * @returns {Partial<ThreadView>}
 */
function withEvent(view, event) {
  if (view.messages.some(({ id }) => id === event.id)) return {};
  const messages = view.messages.slice(-messagesMax);
  addEvent(messages, event);
  const isReply = event.kind === "message" && event.role === "assistant";
  const isEnd = isReply && event.tool_calls === undefined;
  const asks =
    event.tool_call_id === undefined ? view.asks : view.asks.filter(({ call }) => call !== event.tool_call_id);
  return { messages, asks, ...(isReply && unsaid), ...(isEnd && { isRunning: false }) };
}

/**
 * Adds an event of the log to the messages; the result of a call belongs to the message with the call.
 * @param {ThreadMessage[]} messages
 * @param {any} event
 */
function addEvent(messages, { id, kind, role, content, tool_call_id, tool_calls, metadata }) {
  if (kind === "tool_result") {
    const at = messages.findLastIndex(({ calls }) => calls.some((call) => call.id === tool_call_id));
    const message = messages[at];
    if (message === undefined) return;
    const calls = message.calls.map((call) => (call.id === tool_call_id ? { ...call, output: content } : call));
    messages[at] = { ...message, calls };
    return;
  }
  const isShown = (kind === "message" || kind === "custom") && (role === "user" || role === "assistant");
  if (!isShown) return;
  /** @type {{ id: string, name: string, args: unknown }[]} */
  const asked = tool_calls ?? [];
  const calls = asked.map((call) => ({ id: call.id, name: call.name, args: call.args, output: null }));
  const thinking = (metadata?.thinking ?? [])
    .map((/** @type {{ thinking?: string }} */ block) => block.thinking ?? "")
    .join("");
  messages.push({ id, role, content: typeof content === "string" ? content : "", thinking, calls });
}

/**
 * @param {ThreadView} view
 * @param {ThreadAsk} ask
 */
function withAsk({ asks }, ask) {
  return [...asks.filter(({ id }) => id !== ask.id), ask];
}

/** @param {unknown} metadata */
function callOf(metadata) {
  const { tool_call_id = null } = /** @type {{ tool_call_id?: string | null }} */ (metadata ?? {});
  return tool_call_id;
}
