import { SvcError } from "../../bus/errors.ts";
import type { ClientMessage } from "../../bus/protocol/run.ts";

// Converts the input of POST /v1/responses to messages. The run checks who may say what: tool calls and results count if they belong to the
// request's own tools, and are quoted as text otherwise.

const roles = ["user", "assistant", "system", "developer"];

/** Returns the messages of an input, which is a text or a list of items. Refuses with invalid_request and unsupported_parameter. */
export function inputMessages(input: unknown): ClientMessage[] {
  if (typeof input === "string") return [{ role: "user", content: input }];
  return inSteps((input as readonly Item[]).map(itemMessage));
}

/**
 * Joins consecutive assistant items with tool calls into one message per model step, at the index of the step's last item. The merged items
 * become empty messages, so that the indexes of all others stay the same.
 */
function inSteps(messages: ClientMessage[]): ClientMessage[] {
  let step = new Step();
  for (const [at, message] of messages.entries()) {
    if (message === nothing) continue;
    if (message.role !== "assistant" || !step.takes(message)) {
      step.close(messages);
      step = new Step();
    }
    if (message.role === "assistant") step.add(message, at);
  }
  step.close(messages);
  return messages;
}

/** Consecutive messages of the model. They are joined once at the end, because some clients send thousands of calls. */
class Step {
  readonly #places: number[] = [];
  readonly #contents: unknown[] = [];
  readonly #calls: object[] = [];

  /** Returns true if the message belongs to this step. Two texts without calls stay separate messages. */
  takes({ tool_calls }: ClientMessage): boolean {
    return this.#places.length === 0 || this.#calls.length > 0 || tool_calls !== undefined;
  }

  add({ content, tool_calls }: ClientMessage, at: number): void {
    this.#places.push(at);
    if (content !== undefined && content !== null) this.#contents.push(content);
    for (const call of (tool_calls as object[] | undefined) ?? []) this.#calls.push(call);
  }

  close(messages: ClientMessage[]): void {
    const last = this.#places.pop();
    if (last === undefined || this.#places.length === 0) return;
    for (const at of this.#places) messages[at] = nothing;
    messages[last] = { role: "assistant", content: joined(this.#contents), tool_calls: this.#calls };
  }
}

function joined(contents: readonly unknown[]): unknown {
  if (contents.length < 2) return contents[0] ?? null;
  return contents.flatMap((content) => (typeof content === "string" ? [{ type: "text", text: content }] : content));
}

const nothing: ClientMessage = { role: "system", content: "" };

/** Rewrites a refusal of a turn with the field names of this protocol; the index of a message is the index of its item. */
export function ofInput(error: unknown): unknown {
  if (!(error instanceof SvcError) || error.code !== "invalid_request" || !Array.isArray(error.details.detail))
    return error;
  const detail = error.details.detail.map(({ loc: [place, field, ...rest], msg, type }) => ({
    loc:
      field === "response_format"
        ? [place, "text", "format", ...rest.filter((part: unknown, at: number) => at > 0 || part !== "json_schema")]
        : [place, field === "messages" ? "input" : field, ...rest],
    msg: String(msg).replace(/^messages: /, ""),
    type,
  }));
  return new SvcError("invalid_request", { detail });
}

type Item = Readonly<Record<string, unknown>>;

function itemMessage(item: Item, at: number): ClientMessage {
  switch (item.type ?? "message") {
    case "message":
      return messageOf(item, at);
    case "function_call": {
      const { name, arguments: args } = item;
      if (typeof name !== "string") throw malformed(at, "name", "must be a string");
      // Some clients send empty arguments for a function without parameters.
      if (args !== "" && !isJson(args)) throw malformed(at, "arguments", "must be JSON");
      const calls = [{ id: callId(item, at), type: "function", function: { name, arguments: args } }];
      return { role: "assistant", content: null, tool_calls: calls };
    }
    case "function_call_output":
      return { role: "tool", tool_call_id: callId(item, at), content: contentOf(item.output, at, "output") };
    // Reasoning items are ignored: svc keeps reasoning in its own log. Each item becomes a message, so that indexes in later errors stay
    // right.
    case "reasoning":
      return nothing;
    default:
      throw new SvcError("unsupported_parameter", { subject: `input.${at}.type` });
  }
}

function messageOf(item: Item, at: number): ClientMessage {
  const { role } = item;
  if (typeof role !== "string" || !roles.includes(role))
    throw malformed(at, "role", `must be one of ${roles.join(", ")}`);
  return { role, content: contentOf(item.content, at, "content") };
}

function contentOf(content: unknown, at: number, field: string): string | object[] {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw malformed(at, field, "must be a string or a list of parts");
  return content.map((part, index) => partOf(part, at, `${field}.${index}`));
}

function partOf(part: unknown, at: number, place: string): object {
  if (typeof part !== "object" || part === null || Array.isArray(part)) throw malformed(at, place, "must be an object");
  const { type, text, refusal, image_url, file_id, detail } = part as Item;
  switch (type) {
    case "input_text":
    case "output_text":
    case "text":
      if (typeof text !== "string") throw malformed(at, `${place}.text`, "must be a string");
      return { type: "text", text };
    case "refusal":
      if (typeof refusal !== "string") throw malformed(at, `${place}.refusal`, "must be a string");
      return { type: "text", text: refusal };
    case "input_image":
      return file_id === undefined || file_id === null
        ? { type: "image_url", image_url: { url: image_url, ...(typeof detail === "string" && { detail }) } }
        : { type: "file", file: { file_id } };
    case "input_file":
      if (typeof file_id !== "string") throw new SvcError("unsupported_part");
      return { type: "file", file: { file_id } };
    default:
      throw new SvcError("unsupported_parameter", { subject: `input.${at}.${place}.type` });
  }
}

function callId({ call_id }: Item, at: number): string {
  if (typeof call_id !== "string" || call_id === "" || call_id.length > 256)
    throw malformed(at, "call_id", "must be a string of 1 to 256 characters");
  return call_id;
}

function isJson(text: unknown): boolean {
  if (typeof text !== "string") return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function malformed(at: number, field: string, msg: string): SvcError {
  const path = field.split(".").map((part) => (/^\d+$/.test(part) ? Number(part) : part));
  return new SvcError("invalid_request", {
    detail: [{ loc: ["body", "input", at, ...path], msg: `${field} ${msg}`, type: "value_error" }],
  });
}
