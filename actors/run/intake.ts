import { SvcError } from "../../bus/errors.ts";
import type { ClientMessage, SubmitTurn } from "../../bus/protocol/run.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import { expandCommands, expandTemplate } from "../../manifests/prompts.ts";
import { type Attachment, attachmentsOf, fileIdOf } from "../log/attachment.ts";
import type { JournalEntry } from "../log/entry.ts";
import { attachmentsMax, type Taken, takeAttachment, takePart } from "./attachments.ts";

// What a client sends becomes entries of the log here. Only user messages have the client's authority: the rest is context
// (decision 13). A client's system text is kept as such and shown below the manifest's own; its assistant turns keep their
// words and lose their tool calls; a tool result that the server never asked for is quoted as the client's text.

/** Roles of the OpenAI protocol. */
const roles = ["user", "assistant", "system", "developer", "tool", "function"] as const;
type Role = (typeof roles)[number];

/** Types of dropped parts that the log gets to see. */
const droppedTypesMax = 20;

/** What a model cannot be given is dropped; the caller logs what that was. */
export interface Intake {
  readonly entries: readonly JournalEntry[];
  /** The words of the last user message, for audit and the list of sessions. */
  readonly userText: string;
  /** The files that messages refer to, whether they are there or not. */
  readonly fileIds: readonly string[];
  /** Whether messages carry images beside those files. */
  readonly hasImages: boolean;
  readonly droppedParts: readonly string[];
}

/**
 * The entries of a turn's messages and template, slash commands expanded. Refuses with invalid_request, unknown_prompt,
 * empty_prompt, too_many_commands and messages_or_template_required.
 */
export function takeMessages(turn: SubmitTurn, agent: CompiledAgent): Intake {
  const dropped = new Set<string>();
  const messages = expandCommands(agent.prompts, turn.messages as (ClientMessage & { content: unknown })[]);
  const entries = messages.flatMap((message, index) => takeMessage(message, index, turn, dropped));
  if (turn.template !== null)
    entries.push(userEntry(expandTemplate(agent.prompts, turn.template, turn.template_args), null, turn));
  const lastUser = entries.findLast((entry) => entry.role === "user");
  if (!lastUser) throw new SvcError("messages_or_template_required");
  const fileIds: string[] = [];
  let hasImages = false;
  for (const { extra } of entries)
    for (const { url } of attachmentsOf(extra) ?? []) {
      const fileId = fileIdOf(url);
      if (fileId === null) hasImages = true;
      else fileIds.push(fileId);
    }
  return { entries, userText: lastUser.content, fileIds, hasImages, droppedParts: [...dropped] };
}

/** The entries with what is known of their files: what a client says that they are is not believed. */
export function withFiles(
  entries: readonly JournalEntry[],
  files: ReadonlyMap<string, Pick<Attachment, "media_type" | "filename">>,
): JournalEntry[] {
  return entries.map((entry) => {
    const attachments = attachmentsOf(entry.extra);
    if (attachments === null) return entry;
    const known = attachments.map((one) => ({ ...one, ...files.get(fileIdOf(one.url) ?? "") }));
    return { ...entry, extra: { ...entry.extra, metadata: { ...entry.extra?.metadata, attachments: known } } };
  });
}

function takeMessage(message: ClientMessage, index: number, turn: SubmitTurn, dropped: Set<string>): JournalEntry[] {
  const role = message.role as Role;
  if (!roles.includes(role)) throw malformed(index, "role", `must be one of ${roles.join(", ")}`);
  if (message.name !== undefined && (typeof message.name !== "string" || message.name.length > 128))
    throw malformed(index, "name", "must be a string of at most 128 characters");
  const { text, attachments } = takeContent(message, index, dropped);
  if (role !== "user") for (const { media_type } of attachments) drop(dropped, `${media_type} of role ${role}`);
  switch (role) {
    case "user":
      return text === "" && attachments.length === 0 ? [] : [userEntry(text, message.name ?? null, turn, attachments)];
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

/** What a message says, a string or its text parts on lines of their own, and what it carries beside that. */
function takeContent({ content, attachments: listed }: ClientMessage, index: number, dropped: Set<string>): Content {
  if (typeof content === "string" && (listed === undefined || listed === null))
    return { text: content, attachments: none };
  const texts: string[] = [];
  const attachments: Attachment[] = [];
  const take = (field: string, taken: () => Taken): void => {
    const found = orMalformed(index, field, taken);
    if ("dropped" in found) {
      drop(dropped, found.dropped);
      return;
    }
    if (attachments.length >= attachmentsMax)
      throw malformed(index, field, `is one more than the ${attachmentsMax} images that a message may carry`);
    attachments.push(found.attachment);
  };
  if (typeof content === "string") texts.push(content);
  else if (Array.isArray(content)) {
    for (const [at, part] of content.entries()) {
      if (part === null || typeof part !== "object" || Array.isArray(part))
        throw malformed(index, `content.${at}`, "must be an object");
      const type: unknown = part.type;
      if (type !== undefined && type !== "text") take(`content.${at}`, () => takePart(part));
      else if (typeof part.text === "string") texts.push(part.text);
      else throw malformed(index, `content.${at}.text`, "must be a string");
    }
  } else if (content !== null && content !== undefined)
    throw malformed(index, "content", "must be a string or a list of parts");
  if (listed !== null && listed !== undefined) {
    if (!Array.isArray(listed)) throw malformed(index, "attachments", "must be a list");
    for (const [at, item] of listed.entries()) take(`attachments.${at}`, () => takeAttachment(item));
  }
  return { text: texts.length === 1 ? (texts[0] as string) : texts.join("\n"), attachments };
}

const none: readonly Attachment[] = [];

interface Content {
  readonly text: string;
  readonly attachments: readonly Attachment[];
}

function drop(dropped: Set<string>, what: string): void {
  if (dropped.size < droppedTypesMax) dropped.add(what);
}

function orMalformed<T>(index: number, field: string, take: () => T): T {
  try {
    return take();
  } catch (error) {
    throw malformed(index, field, (error as Error).message);
  }
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

function userEntry(
  content: string,
  name: string | null,
  turn: SubmitTurn,
  attachments: readonly Attachment[] = none,
): JournalEntry {
  return entry("user", content, attachments.length === 0 ? {} : { attachments }, turn, name);
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
