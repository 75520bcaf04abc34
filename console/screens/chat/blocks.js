// The parts of a turn in the order in which they happened, made from the frames of a live turn or from the events of a stored one.
// A block is {type: "text" | "thinking" | "tool" | "question" | "note", …}.

/** Returns a turn without blocks. */
export function newTurn() {
  return { blocks: [], todos: null, error: "", state: "running", usage: null };
}

/** Changes a turn by a frame of its stream. */
export function takeFrame(turn, { event, data = {}, error }) {
  if (error) {
    turn.error = error.message ?? "The turn failed.";
    return;
  }
  const take = takers[event];
  if (take) take(turn, data);
}

const takers = {
  session_progress(turn, { phase, replay }) {
    if (phase === "compaction") note(turn, "Making room in the context");
    // The server repeats the uncommitted text from its start.
    if (replay)
      turn.blocks = turn.blocks.filter(({ type, isLive }) => !isLive || (type !== "text" && type !== "thinking"));
  },
  text_delta: (turn, { delta }) => append(turn, "text", delta),
  thinking_delta: (turn, { delta }) => append(turn, "thinking", delta),
  tool_start: (turn, { id, name, input }) => Object.assign(toolOf(turn, id, name), { input, state: "running" }),
  tool_execution_update(turn, { id, name, status, progress }) {
    const tool = toolOf(turn, id, name);
    if (progress) tool.progress = progress;
    if (status === "running") tool.state = "running";
    // A call without a result of its own, such as a list of steps, is told by its end only.
    else if (tool.state === "running") tool.state = "ok";
  },
  tool_end(turn, { id, name, output, attachments, sources }) {
    Object.assign(toolOf(turn, id, name), { output, attachments, sources, state: isFailure(output) ? "error" : "ok" });
  },
  tool_request: (turn, { id, name, args }) => Object.assign(toolOf(turn, id, name), { input: args, state: "client" }),
  approval_required(turn, data) {
    Object.assign(toolOf(turn, data.tool_call_id, data.tool_name), {
      input: data.args,
      state: "approval",
      approval: data,
    });
  },
  ui_request(turn, data) {
    if (!turn.blocks.some(({ id }) => id === data.request_id))
      turn.blocks.push({ type: "question", id: data.request_id, question: data, state: "open" });
  },
  steer: (turn, { content }) => turn.blocks.push({ type: "steer", text: content }),
  follow_up: (turn, { content }) => turn.blocks.push({ type: "steer", text: content }),
  todo_updated(turn, { todos }) {
    turn.todos = todos;
  },
  subagent_start: (turn, { agent }) => turn.blocks.push({ type: "agent", name: agent, state: "running" }),
  subagent_end(turn, { agent, outcome }) {
    const block = turn.blocks.findLast(({ type, name }) => type === "agent" && name === agent);
    if (block) block.state = outcome;
  },
  workspace_note: (turn, { path, op, kind }) =>
    note(turn, kind === "plan" ? "A plan changed" : `A person changed ${path} (${op})`),
  permission_mode_changed: (turn, { mode }) => note(turn, `Permission mode: ${mode}`),
  max_turns: (turn, { limit }) => note(turn, `Stopped at the limit of ${limit} steps`),
  run_accepted: (turn, { resume_token }) => {
    turn.runId = resume_token;
  },
  run_status(turn, { status, waiting_on }) {
    turn.runStatus = waiting_on ? `waiting for ${waiting_on.kind}` : status;
  },
  aborted(turn) {
    turn.state = "aborted";
    note(turn, "Stopped");
  },
  on_error(turn, { message }) {
    turn.error = message;
  },
  done(turn, { usage, stop_reason }) {
    turn.usage = usage ?? null;
    if (turn.state === "running") turn.state = "done";
    if (stop_reason === "max_tokens") note(turn, "The answer ended at its token limit");
  },
  final(turn, { usage, final }) {
    turn.usage = usage ?? null;
    turn.state = "done";
    if (final && !turn.blocks.some(({ type }) => type === "text")) append(turn, "text", final.content);
  },
};

function append(turn, type, delta) {
  const last = turn.blocks.at(-1);
  if (last?.type === type && last.isLive) last.text += delta;
  else turn.blocks.push({ type, text: delta, isLive: true });
}

function note(turn, text) {
  if (turn.blocks.at(-1)?.text !== text) turn.blocks.push({ type: "note", text });
}

function toolOf(turn, id, name) {
  let tool = turn.blocks.find((block) => block.type === "tool" && block.id === id);
  if (!tool) {
    tool = { type: "tool", id, name, input: undefined, output: undefined, state: "running" };
    turn.blocks.push(tool);
  }
  return tool;
}

/** True if the result of a tool is an error of svc's tools. */
function isFailure(output) {
  return typeof output === "string" && /^\[(?:tool error|denied|tool_)/.test(output);
}

/** Events that are shown also without a text. */
const turningPoints = new Set(["compaction", "branch_summary"]);

/**
 * Returns the stored events of a branch as entries: a message of a person, an answer with all steps that led to it, or a note.
 * An entry is {key, type: "user" | "answer" | "note", …}.
 */
export function entriesOf(path) {
  const entries = [];
  let answer = null;
  const answerAt = (event) => {
    if (answer === null) {
      answer = { key: event.id, type: "answer", blocks: [], events: [], last: event, usage: null };
      entries.push(answer);
    }
    answer.events.push(event);
    return answer;
  };
  for (const event of path) {
    if (event.kind === "audit") continue;
    if (event.kind === "message" && event.role === "user") {
      answer = null;
      entries.push({
        key: event.id,
        type: "user",
        event,
        text: textOf(event.content),
        attachments: event.metadata?.attachments ?? [],
      });
    } else if (event.kind === "message" && event.role === "assistant") takeAnswer(answerAt(event), event);
    else if (event.kind === "tool_call") {
      const tool = toolOf(answerAt(event), event.toolCallId, event.toolName);
      tool.since = event.timestamp;
    } else if (event.kind === "tool_result") takeResult(answerAt(event), event);
    else if (event.content || turningPoints.has(event.kind)) {
      answer = null;
      const kind = event.metadata?.type ?? event.kind;
      entries.push({ key: event.id, type: "note", kind, text: textOf(event.content), event });
    }
  }
  return entries;
}

function takeAnswer(answer, event) {
  for (const { thinking } of event.metadata?.thinking ?? []) answer.blocks.push({ type: "thinking", text: thinking });
  const text = textOf(event.content);
  if (text !== "") answer.blocks.push({ type: "text", text });
  for (const { id, name, args } of event.toolCalls ?? [])
    Object.assign(toolOf(answer, id, name), { input: args, state: "open" });
  answer.last = event;
  const usage = event.usage ?? event.metadata?.usage;
  if (usage)
    answer.usage = {
      input: (answer.usage?.input ?? 0) + usage.input,
      output: (answer.usage?.output ?? 0) + usage.output,
    };
  if (event.metadata?.model) answer.model = event.metadata.model;
  if (event.status !== "complete") answer.blocks.push({ type: "note", text: event.status });
}

function takeResult(answer, event) {
  const tool = toolOf(answer, event.toolCallId, event.toolName);
  Object.assign(tool, {
    output: textOf(event.content),
    state: event.status === "ok" || event.status === "complete" ? "ok" : event.status,
    ms: tool.since === undefined ? undefined : event.timestamp - tool.since,
    attachments: event.metadata?.attachments,
    sources: event.metadata?.sources,
  });
}

/** Returns the text of a message's content, which is a text or a list of parts. */
export function textOf(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return content === null || content === undefined ? "" : JSON.stringify(content);
  return content.map((part) => (typeof part === "string" ? part : (part.text ?? ""))).join("");
}
