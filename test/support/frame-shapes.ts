import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { frames } from "../../http/schemas/frames.ts";
import type { Frame } from "./sse-frames.ts";

// The rows of the frame table (document 1, "SSE stream frames"; shapes, 2.1 and 2.2): the fields of each frame's data.

type Json = Readonly<Record<string, unknown>>;
type Check = (value: unknown) => boolean;

const isText: Check = (value) => typeof value === "string";
const isWord: Check = (value) => typeof value === "string" && value !== "";
const isBoolean: Check = (value) => typeof value === "boolean";
const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isAmount: Check = (value) => typeof value === "number" && value >= 0;
const isAny: Check = (value) => value !== undefined;
const isObject: Check = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isListOf =
  (each: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(each);
const isMapOf =
  (each: Check): Check =>
  (value) =>
    isObject(value) && Object.values(value as Json).every(each);
const isOneOf =
  (...words: readonly unknown[]): Check =>
  (value) =>
    words.includes(value);
const orNull =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);

/** Fields of an object; a name that ends in ? may be missing. */
type Shape = Readonly<Record<string, Check>>;

const isShape =
  (shape: Shape): Check =>
  (value) =>
    isObject(value) && problemOf(shape, value as Json) === null;

/** The fault of an object's fields; null without one. */
function problemOf(shape: Shape, value: Json): string | null {
  const known = new Set<string>();
  for (const [field, check] of Object.entries(shape)) {
    const name = field.replace(/\?$/, "");
    known.add(name);
    if (!(name in value)) {
      if (!field.endsWith("?")) return `${name} is missing`;
    } else if (!check(value[name])) return `${name} is ${JSON.stringify(value[name])}`;
  }
  const other = Object.keys(value).find((name) => !known.has(name));
  return other === undefined ? null : `${other} is no field of it`;
}

const isIso: Check = (value) => /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(String(value));
const isToken: Check = (value) => /^[0-9a-f]{32}$/.test(String(value));
const token = { resume_token: isToken, fiber_id: isToken };
const reply = { role: isOneOf("assistant"), content: isText };
const runStatuses = ["accepted", "running", "waiting", "completed", "failed", "expired", "dead"];
const call = { name: isText, id: isWord };
const delta = { chunk: isShape({ content: isText }), delta: isText };
const quotedSource = isShape({ doc_id: isWord, title: isWord, source: isText, chunk_index: isCount });
const attachment = isShape({
  url: (url) => isText(url) && /^svc-file:\/\/[0-9a-f]{32}$/.test(String(url)),
  media_type: isWord,
});
const loggedCalls = isListOf(isShape({ id: isWord, name: isText, args: isAny }));
const message = {
  role: isOneOf("user", "assistant", "system", "tool"),
  content: isAny,
  "name?": isText,
  "tool_calls?": loggedCalls,
  "tool_call_id?": isWord,
};
const thought = isShape({ type: isOneOf("thinking"), thinking: isWord });
const sums = { input: isAmount, output: isAmount, cacheRead: isAmount, cacheWrite: isAmount };
const todo = isShape({
  id: isWord,
  content: isText,
  status: isOneOf("pending", "in_progress", "completed"),
  active_form: isText,
});
const stopReasons = "end_turn tool_use max_tokens max_turns stop_sequence pause_turn refusal unknown".split(" ");
const kinds =
  `message tool_call tool_result thinking audit compaction model_change thinking_level_change branch_summary custom label
  session_info`.split(/\s+/);

/** A progress frame is one of these. */
const progress: readonly Shape[] = [
  { phase: isOneOf("turn") },
  { phase: isOneOf("turn"), replay: isOneOf(true), "truncated?": isOneOf(true) },
  { phase: isOneOf("compaction"), reason: isOneOf("threshold", "overflow", "after_turn", "manual") },
  { phase: isOneOf("held") },
  { progress: isShape({ type: isOneOf("assistant_delta"), kind: isOneOf("text", "thinking"), delta: isText }) },
];

const shapes: Readonly<Record<string, readonly Shape[]>> = {
  session_progress: progress,
  text_delta: [delta],
  thinking_delta: [delta],
  tool_start: [{ ...call, input: isAny }],
  tool_execution_update: [
    { ...call, status: isOneOf("running", "complete") },
    {
      ...call,
      status: isOneOf("running"),
      progress: isShape({ done: isAmount, "total?": isAmount, "message?": isText }),
    },
  ],
  tool_end: [
    {
      ...call,
      output: isText,
      "attachments?": (value) => isListOf(attachment)(value) && value !== undefined,
      "sources?": (value) => isListOf(quotedSource)(value) && value !== undefined,
    },
  ],
  tool_request: [{ ...call, args: isAny, thread_id: isWord, transport: isOneOf("client") }],
  approval_required: [
    {
      ...{
        approval_id: isWord,
        tool_name: isWord,
        args: isObject,
        evidence: isObject,
        rule_id: isWord,
        reason: isText,
      },
      ...{ thread_id: isText, tool_call_id: isText, expires_at: orNull(isCount) },
    },
  ],
  ui_request: [
    {
      ...{ request_id: (id) => isWord(id) && String(id).length <= 64, kind: isOneOf("select", "confirm", "input") },
      ...{ prompt: isText, default: isAny, thread_id: isWord, options: isAny, metadata: isAny },
    },
  ],
  steer: [{ content: isText }],
  follow_up: [{ content: isText }],
  workspace_note: [
    { path: isWord, op: isOneOf("write", "delete", "rename"), "bytes?": isCount, "to_path?": isWord },
    { kind: isOneOf("plan"), plan_id: isWord, updated_at: isCount },
  ],
  todo_updated: [{ todos: isListOf(todo) }],
  subagent_start: [{ agent: isWord, background: isBoolean, "task_id?": isWord, "thread_id?": isWord }],
  subagent_end: [{ agent: isWord, outcome: isOneOf("ok", "error") }],
  permission_mode_changed: [{ mode: isOneOf("default", "plan", "accept_edits", "bypass") }],
  max_turns: [{ limit: isCount }],
  aborted: [{ thread_id: isText }],
  on_error: [{ message: isWord }],
  on_chain_end: [{ output: isText }],
  done: [
    {
      final: orNull(isShape({ role: isOneOf("assistant"), content: isText })),
      messages: isListOf(isShape(message)),
      stop_reason: isOneOf(...stopReasons),
      "usage?": isShape({ ...sums, totalTokens: isCount, cost: isShape({ ...sums, total: isAmount }) }),
    },
  ],
  run_accepted: [{ ...token, status: isOneOf("accepted"), expires_at: isIso, thread_id: orNull(isWord) }],
  workflow_run: [
    {
      ...{ run_id: isToken, workflow_id: isWord, revision: isCount, version: isCount, started_by: isText },
      status: isOneOf("queued", "running", "waiting", "cancelling", "cancelled", "succeeded", "failed"),
      ...{ inputs: isObject, outputs: orNull(isObject), error: orNull(isText), cost_usd: isAmount },
      ...{ cause: isOneOf("request", "trigger", "job"), created_at: isCount, finished_at: orNull(isCount) },
      steps: isListOf(
        isShape({
          ...{ step_id: isWord, kind: isWord, label: orNull(isText), attempt: isCount, thread_id: orNull(isWord) },
          status: isOneOf("pending", "running", "waiting", "succeeded", "failed", "skipped", "cancelled"),
          ...{ output: orNull(isObject), error: orNull(isText), taint: isListOf(isText) },
          ...{ started_at: orNull(isCount), finished_at: orNull(isCount) },
        }),
      ),
    },
  ],
  run_status: [
    {
      ...{ ...token, status: isOneOf(...runStatuses), attempt: isCount, step: isCount, updated_at: isCount },
      waiting_on: orNull(
        isShape({ kind: isOneOf("approval", "tool", "ui", "task", "retry"), id: isWord, until: orNull(isCount) }),
      ),
    },
  ],
  final: [
    {
      ...{ status: isOneOf("completed"), final: orNull(isShape(reply)), error: isOneOf(null) },
      stop_reason: isOneOf(...stopReasons),
      "usage?": isShape({ ...sums, totalTokens: isCount, cost: isShape({ ...sums, total: isAmount }) }),
      run: isShape({
        ...{ ...token, status: isOneOf("completed"), expires_at: isIso, final: orNull(isShape(reply)) },
        ...{ error: isOneOf(null), manifest_id: isWord, "webhooks?": isMapOf(isOneOf("pending", "delivered", "dead")) },
      }),
    },
  ],
  session_event: [
    {
      ...{ id: (id) => /^[0-9a-f]{32}$/.test(String(id)), seq: isCount, kind: isOneOf(...kinds) },
      ...{ role: orNull(message.role), content: isText, name: orNull(isText) },
      ...{ "tool_call_id?": isWord, "tool_calls?": loggedCalls },
      "metadata?": isShape({ "thinking?": isListOf(thought), "attachments?": isListOf(isObject) }),
    },
  ],
};

/** Frames without an id on any stream: those of tokens, of progress and of failures. */
export const withoutId: ReadonlySet<string> = new Set([
  ...["session_progress", "text_delta", "thinking_delta", "on_error", "error", "run_accepted", "run_status", "final"],
]);

/** The frames that have a row here. */
export const frameNames: readonly string[] = [...Object.keys(shapes), "snapshot"];

/** Made for the first frame: most files that start a server read no stream. */
let ajv: Ajv2020 | undefined;
/** By the frame's name, compiled for the first of its kind: few files meet more than some of them. */
const told = new Map<string, ValidateFunction>();

function toldOf(name: string): ValidateFunction | undefined {
  const schema = Object.hasOwn(frames, name) ? frames[name as keyof typeof frames].schema : undefined;
  if (schema === undefined || told.has(name)) return told.get(name);
  ajv ??= new Ajv2020({ strict: false });
  const check = ajv.compile(schema);
  told.set(name, check);
  return check;
}

/** The fault of a single frame: its envelope, its text, the fields of its data. Null without one. */
export function frameProblem(frame: Frame): string | null {
  const check = toldOf(frame.name);
  const problem = ownProblem(frame);
  if (problem !== null || check === undefined || check(frame.json)) return problem;
  return `it is not as the reference says: ${ajv?.errorsText(check.errors)}`;
}

function ownProblem({ name, event, json, raw, id, data }: Frame): string | null {
  if (name === "error") {
    const isRight = isShape({
      error: isShape({ message: isWord, type: isOneOf("stream_error", "run_error", "blocked_by_hook") }),
    })(json);
    if (!isRight || event !== "error" || id !== null || json.error.message.length > 200) return "it is no error frame";
    return null;
  }
  if (event !== null) return "it has an event line";
  if (raw !== `${id === null ? "" : `id: ${id}\n`}data: ${data}\n\n`) return "it has other lines";
  if (Object.keys(json).join() !== "event,type,data,text" || json.event !== json.type) return "its envelope is another";
  if (json.text !== textOf(json.data)) return `its text is ${JSON.stringify(json.text)}`;
  if (name === "snapshot")
    return isObject(json.data) && Array.isArray(json.data.transcript) ? null : "it has no transcript";
  const known = shapes[name];
  if (known === undefined) return "there is no such frame";
  const problems = known.map((shape) => problemOf(shape, json.data));
  return problems.includes(null) ? null : problems.join("; or ");
}

/** The text of an envelope, as document 1 derives it. */
function textOf(data: Json): unknown {
  const { chunk, text, delta: more } = data as { chunk?: { content?: unknown }; text?: unknown; delta?: unknown };
  const found = chunk?.content ?? text ?? more;
  return typeof found === "string" ? found : "";
}
