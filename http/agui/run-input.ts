import { SvcError } from "../../bus/errors.ts";
import type { TurnOptions } from "../../bus/protocol/turn-options.ts";
import { completionOptions } from "../turn-options.ts";

// The body of an AG-UI run, in the form of a completion, whose rules it follows: on a known thread the last user message and the results of
// handed-out calls count, and the history of the client has no authority.

/** Max characters of a client's word in a refusal. */
const subjectCharsMax = 64;

/** An object of the body, whose fields are checked where they are read. */
export type Fields = Readonly<Record<string, unknown>>;

/** The message of a turn. */
interface TurnMessage {
  readonly role: string;
  readonly [field: string]: unknown;
}

/** Returns the messages of the turn. The context of the client is text of its last message. Refuses with invalid_request. */
export function runMessages(messages: readonly Fields[], context: readonly Fields[]): TurnMessage[] {
  const read = messages.flatMap((message, at) => messageOf(message, at));
  const last = read.findLastIndex(({ role }) => role === "user");
  const asked = read[last];
  if (context.length === 0 || asked === undefined) return read;
  const words = context.map(({ description, value }) => `- ${String(description)}: ${String(value)}`).join("\n");
  const content = asked.content as string | readonly unknown[];
  return read.with(last, { ...asked, content: withText(content, `\n\nContext of the application:\n${words}`) });
}

/** Returns the options of the turn: the client's tools. */
export function runOptions(tools: readonly Fields[]): TurnOptions | undefined {
  if (tools.length === 0) return undefined;
  const functions = tools.map(({ name, description, parameters }) => {
    return { type: "function", function: { name, description, parameters } };
  });
  return completionOptions({ tools: functions });
}

function messageOf({ role, content, toolCalls, toolCallId, error }: Fields, at: number): TurnMessage[] {
  switch (role) {
    case "user":
      return [{ role, content: typeof content === "string" ? content : partsOf(content, at) }];
    case "assistant":
      return [{ role, content: content ?? "", ...(Array.isArray(toolCalls) && { tool_calls: toolCalls }) }];
    case "tool":
      return [{ role, tool_call_id: toolCallId, content: typeof error === "string" ? `Error: ${error}` : content }];
    case "system":
    case "developer":
      return [{ role: "system", content }];
    // Shown by the application only, or known to the thread.
    case "activity":
    case "reasoning":
      return [];
    default:
      throw invalid(at, "role must be user, assistant, tool, system, developer, activity or reasoning");
  }
}

function partsOf(content: unknown, at: number): unknown[] {
  if (!Array.isArray(content)) throw invalid(at, "the content of a user must be a string or a list of parts");
  return content.map((part) => partOf(part, at));
}

/** Returns a part of a user's message in the form of a completion. */
function partOf(part: unknown, at: number): unknown {
  const { type, text, source } = Object(part) as Fields;
  if (type === "text") return { type, text };
  if (typeof type !== "string") throw invalid(at, "a part needs a type, which is a string");
  if (type !== "image") throw new SvcError("unsupported_part", { subject: type.slice(0, subjectCharsMax) });
  const { type: kind, value, mimeType } = Object(source) as Fields;
  if (typeof value !== "string") throw invalid(at, "an image needs a source with a value");
  if (kind === "url") return { type: "image_url", image_url: { url: value } };
  if (typeof kind !== "string") throw invalid(at, "the source of an image needs a type, which is a string");
  if (kind !== "data")
    throw new SvcError("unsupported_part", { subject: `image from ${kind.slice(0, subjectCharsMax)}` });
  if (typeof mimeType !== "string") throw invalid(at, "the data of an image need a mimeType, which is a string");
  return { type: "image_url", image_url: { url: `data:${mimeType};base64,${value}` } };
}

function withText(content: string | readonly unknown[], text: string): unknown {
  return typeof content === "string" ? content + text : [...content, { type: "text", text }];
}

function invalid(at: number, msg: string): SvcError {
  return new SvcError("invalid_request", { detail: [{ loc: ["body", "messages", at], msg, type: "value" }] });
}
