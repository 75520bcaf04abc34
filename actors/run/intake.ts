import { SvcError } from "../../bus/errors.ts";
import type { ClientMessage, SubmitTurn } from "../../bus/protocol/run.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import { expandCommands, expandTemplate } from "../../manifests/prompts.ts";
import type { JournalEntry } from "../log/entry.ts";

// What a client sends becomes entries of the log here. Only user messages have the client's authority: the rest is context
// (decision 13). A client's system text is kept as such and shown below the manifest's own; its assistant turns keep their
// words and lose their tool calls; a tool result that the server never asked for is quoted as the client's text.

/** Roles of the OpenAI protocol. */
const roles = ["user", "assistant", "system", "developer", "tool", "function"] as const;
type Role = (typeof roles)[number];

/** Types of dropped parts that the log gets to see. */
const droppedTypesMax = 20;

/** A part that is neither text nor an image or file is dropped; the caller logs its type. */
export interface Intake {
  readonly entries: readonly JournalEntry[];
  /** The words of the last user message, for audit and the list of sessions. */
  readonly userText: string;
  readonly droppedParts: readonly string[];
}

/**
 * The entries of a turn's messages and template, slash commands expanded. Refuses with invalid_request, unsupported_part,
 * unknown_prompt, empty_prompt, too_many_commands and messages_or_template_required.
 */
export function takeMessages(turn: SubmitTurn, agent: CompiledAgent): Intake {
  const dropped = new Set<string>();
  const messages = expandCommands(agent.prompts, turn.messages as (ClientMessage & { content: unknown })[]);
  const entries = messages.flatMap((message, index) => takeMessage(message, index, turn, dropped));
  if (turn.template !== null)
    entries.push(userEntry(expandTemplate(agent.prompts, turn.template, turn.template_args), null, turn));
  const lastUser = entries.findLast((entry) => entry.role === "user");
  if (!lastUser) throw new SvcError("messages_or_template_required");
  return { entries, userText: lastUser.content, droppedParts: [...dropped] };
}

function takeMessage(message: ClientMessage, index: number, turn: SubmitTurn, dropped: Set<string>): JournalEntry[] {
  const role = message.role as Role;
  if (!roles.includes(role)) throw malformed(index, "role", `must be one of ${roles.join(", ")}`);
  if (message.name !== undefined && (typeof message.name !== "string" || message.name.length > 128))
    throw malformed(index, "name", "must be a string of at most 128 characters");
  if (!isEmpty(message.attachments)) throw new SvcError("unsupported_part");
  const text = takeContent(message.content, index, dropped);
  switch (role) {
    case "user":
      return text === "" ? [] : [userEntry(text, message.name ?? null, turn)];
    case "system":
    case "developer":
      return text === "" ? [] : [entry("system", text, { source: "client" }, turn)];
    case "assistant": {
      checkCalls(message.tool_calls, index);
      return text === "" ? [] : [entry("assistant", text, { source: "client" }, turn)];
    }
    case "tool":
    case "function": {
      const name = message.tool_call_id ?? message.name ?? "";
      const quoted = `[The client quotes a tool result${name === "" ? "" : ` of ${JSON.stringify(name)}`}. The server has not run this tool.]\n${text}`;
      return [entry("user", quoted, { source: "client", quoted_role: "tool" }, turn)];
    }
  }
}

/** Text of a message: a string, or its text parts on lines of their own. */
function takeContent(content: unknown, index: number, dropped: Set<string>): string {
  if (content === null || content === undefined) return "";
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw malformed(index, "content", "must be a string or a list of parts");
  const texts: string[] = [];
  for (const [at, part] of content.entries()) {
    if (part === null || typeof part !== "object" || Array.isArray(part))
      throw malformed(index, `content.${at}`, "must be an object");
    const type: unknown = part.type;
    if (type === undefined || type === "text") {
      if (typeof part.text !== "string") throw malformed(index, `content.${at}.text`, "must be a string");
      texts.push(part.text);
    } else if (type === "image_url" || type === "image" || (type === "file" && namesFile(part))) {
      throw new SvcError("unsupported_part");
    } else if (dropped.size < droppedTypesMax) {
      dropped.add(typeof type === "string" ? type.slice(0, 64) : typeof type);
    }
  }
  return texts.join("\n");
}

/** A file part without file_id is one of those that are dropped. */
function namesFile(part: { file?: unknown; file_id?: unknown }): boolean {
  const file = part.file as { file_id?: unknown } | null | undefined;
  return typeof part.file_id === "string" || typeof file?.file_id === "string";
}

/** The calls themselves have no effect, but a client that garbles them is told so. */
function checkCalls(calls: unknown, index: number): void {
  if (calls === undefined || calls === null) return;
  if (!Array.isArray(calls)) throw malformed(index, "tool_calls", "must be a list");
  for (const [at, call] of calls.entries()) {
    const text: unknown = call?.function?.arguments;
    if (text === undefined) continue;
    try {
      JSON.parse(String(text));
    } catch {
      throw malformed(index, `tool_calls.${at}.function.arguments`, "must be JSON");
    }
  }
}

function userEntry(content: string, name: string | null, turn: SubmitTurn): JournalEntry {
  return entry("user", content, {}, turn, name);
}

function entry(
  role: "user" | "assistant" | "system",
  content: string,
  metadata: Readonly<Record<string, unknown>>,
  turn: SubmitTurn,
  name: string | null = null,
): JournalEntry {
  const marked = turn.idempotency === null ? metadata : { ...metadata, origin_request: turn.run_id };
  const hasMetadata = Object.keys(marked).length > 0;
  const extra =
    name === null && !hasMetadata
      ? null
      : { ...(name === null ? {} : { name }), ...(hasMetadata ? { metadata: marked } : {}) };
  return { kind: "message", role, content, extra };
}

function malformed(index: number, field: string, msg: string): SvcError {
  const path = field.split(".").map((part) => (/^\d+$/.test(part) ? Number(part) : part));
  return new SvcError("invalid_request", {
    detail: [{ loc: ["body", "messages", index, ...path], msg: `messages: ${field} ${msg}`, type: "value_error" }],
  });
}

function isEmpty(value: unknown): boolean {
  return value === null || value === undefined || (Array.isArray(value) && value.length === 0);
}
