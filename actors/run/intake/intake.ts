import { durableSuffix } from "../../../bus/address.ts";
import { SvcError } from "../../../bus/errors.ts";
import { ExpandedSize } from "../../../bus/expanded-size.ts";
import type { ClientMessage, QuotedText, SubmitTurn } from "../../../bus/protocol/run.ts";
import { fenced } from "../../../governance/screening/fenced.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import { expandCommands, expandTemplate } from "../../../manifests/prompts.ts";
import type { ToolCall } from "../../../storage/tables/events.ts";
import { type Attachment, attachmentsOf, fileIdOf } from "../../log/attachment.ts";
import type { LogEntry } from "../../log/entry.ts";
import { type ToolOutcome, toolOutcome, unansweredTool } from "../../log/tool-outcome.ts";
import { attachmentsMax, type Taken, takeAttachment, takePart } from "./attachments.ts";
import { answersTo, quotedCalls, requestCalls } from "./client-calls.ts";

// Turns the client's messages into log entries. Decision 13: only user messages have the client's authority, everything else is context.
// System text of the client ranks below the manifest's. Assistant messages keep their text and lose their tool calls. A tool result that
// the server did not ask for is quoted as the client's text.

/** Roles of the OpenAI protocol. */
const roles = ["user", "assistant", "system", "developer", "tool", "function"] as const;
type Role = (typeof roles)[number];

/** Max dropped parts that are logged for one request. */
const droppedTypesMax = 20;

/** The log entries of a request. Content that no model can get is dropped and listed in `droppedParts`. */
export interface Intake {
  readonly entries: readonly LogEntry[];
  /** Results for open calls of the log, by call id. They are in no entry, and the controls have not checked them yet. */
  readonly answers: ReadonlyMap<string, string>;
  /** The entries that are a client's results, each with its call. The controls have not checked them yet. */
  readonly results: ReadonlyMap<LogEntry, ToolCall>;
  /** Text of the last user message, for the audit and the list of threads; null without one. */
  readonly userText: string | null;
  /** Ids of the files that messages refer to, existing or not. */
  readonly fileIds: readonly string[];
  /** True if messages have images other than these files. */
  readonly hasImages: boolean;
  readonly droppedParts: readonly string[];
}

/**
 * Returns the entries of a turn's messages and template, with slash commands expanded. Results of calls that are being closed become
 * `answers`. A turn with such results, or with results for calls in its own messages, needs no user message. Refuses with invalid_request,
 * unknown_prompt, empty_prompt, too_many_commands, payload_too_large and messages_or_template_required.
 */
export function takeMessages(turn: SubmitTurn, agent: CompiledAgent, closing: readonly ToolOutcome[] = []): Intake {
  const dropped = new Set<string>();
  const size = new ExpandedSize(turn.bytes ?? 0);
  const messages = expandCommands(agent.prompts, turn.messages as (ClientMessage & { content: unknown })[], size);
  const places = closing.length === 0 ? null : answersTo(closing, messages);
  const answers = new Map<string, string>();
  for (const [id, at] of places ?? []) {
    answers.set(id, takeResult(messages[at] as ClientMessage, at, dropped));
    messages[at] = { role: "system", content: "" };
  }
  const results = new Map<LogEntry, ToolCall>();
  const isPaired = agent.requestTools !== undefined && hasNoLog(turn);
  const entries = isPaired
    ? takePaired(messages, agent, dropped, results)
    : messages.flatMap((message, index) => takeMessage(message, index, dropped));
  if (turn.template !== null)
    entries.push(userEntry(expandTemplate(agent.prompts, turn.template, turn.template_args, size), null));
  const lastUser = entries.findLast((entry) => entry.role === "user");
  entries.unshift(...(turn.quoted ?? []).map(quotedEntry));
  // A tool result is enough to continue. Clients that keep their own history send only that.
  if (!lastUser && answers.size + results.size === 0) throw nothingToAnswer(messages, [...dropped]);
  const fileIds: string[] = [];
  let hasImages = false;
  for (const { extra } of entries)
    for (const { url } of attachmentsOf(extra) ?? []) {
      const fileId = fileIdOf(url);
      if (fileId === null) hasImages = true;
      else fileIds.push(fileId);
    }
  const userText = lastUser?.content ?? null;
  return { entries, answers, results, userText, fileIds, hasImages, droppedParts: [...dropped] };
}

/** Replaces the media types and names of files that the client sent by the stored ones. */
export function withFiles(
  entries: readonly LogEntry[],
  files: ReadonlyMap<string, Pick<Attachment, "media_type" | "filename">>,
): LogEntry[] {
  return entries.map((entry) => {
    const attachments = attachmentsOf(entry.extra);
    if (attachments === null) return entry;
    const known = attachments.map((one) => ({ ...one, ...files.get(fileIdOf(one.url) ?? "") }));
    return { ...entry, extra: { ...entry.extra, metadata: { ...entry.extra?.metadata, attachments: known } } };
  });
}

/**
 * Returns the entries of messages in which the client quotes calls of its own tools and their results. Results directly follow their calls.
 * A call without a result gets a closing one, and any other result is quoted after the calls.
 */
function takePaired(
  messages: readonly ClientMessage[],
  agent: CompiledAgent,
  dropped: Set<string>,
  results: Map<LogEntry, ToolCall>,
): LogEntry[] {
  const entries: LogEntry[] = [];
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at] as ClientMessage;
    const calls = orMalformed(at, "tool_calls", () => requestCalls(message, agent));
    const plain = takeMessage(message, at, dropped);
    if (calls.length === 0) {
      entries.push(...plain);
      continue;
    }
    const said = new Map<string, string>();
    const quoted: LogEntry[] = [];
    for (; messages[at + 1]?.role === "tool"; at++) {
      const result = messages[at + 1] as ClientMessage;
      const id = result.tool_call_id ?? "";
      if (!said.has(id) && calls.some((call) => call.id === id)) said.set(id, takeResult(result, at + 1, dropped));
      else quoted.push(...takeMessage(result, at + 1, dropped));
    }
    entries.push(quotedCalls(plain[0]?.content ?? "", calls, message.vendor));
    for (const call of calls) {
      const text = said.get(call.id);
      const { entry: closed } = text === undefined ? unansweredTool(call) : toolOutcome(call, text, "ok");
      if (text !== undefined) results.set(closed, call);
      entries.push(closed);
    }
    entries.push(...quoted);
  }
  return entries;
}

/** True if no log can contain the turn's earlier calls: it has no thread, or starts one as a response. */
function hasNoLog({ thread_suffix, run_id, response }: SubmitTurn): boolean {
  const isAlone = thread_suffix === null || thread_suffix === durableSuffix(run_id);
  return isAlone || response?.previous_response_id === null;
}

/** Returns the text of a tool result. Attachments are dropped. */
function takeResult(message: ClientMessage, index: number, dropped: Set<string>): string {
  const { text, attachments } = takeContent(message, index, dropped);
  for (const { media_type } of attachments) drop(dropped, `${media_type} of role tool`);
  return text;
}

function takeMessage(message: ClientMessage, index: number, dropped: Set<string>): LogEntry[] {
  const role = message.role as Role;
  if (!roles.includes(role)) throw malformed(index, "role", `must be one of ${roles.join(", ")}`);
  if (message.name !== undefined && (typeof message.name !== "string" || message.name.length > 128))
    throw malformed(index, "name", "must be a string of at most 128 characters");
  const { text, attachments } = takeContent(message, index, dropped);
  if (role !== "user") for (const { media_type } of attachments) drop(dropped, `${media_type} of role ${role}`);
  switch (role) {
    case "user":
      return text === "" && attachments.length === 0 ? [] : [userEntry(text, message.name ?? null, attachments)];
    case "system":
    case "developer":
      return text === "" ? [] : [entry("system", text, { source: "client" })];
    case "assistant": {
      checkCalls(message.tool_calls, index);
      return text === "" ? [] : [entry("assistant", text, { source: "client" })];
    }
    case "tool":
    case "function": {
      const name = message.tool_call_id ?? message.name ?? "";
      const quoted = `[The client quotes a tool result${name === "" ? "" : ` of ${JSON.stringify(name)}`}. The server has not run this tool.]\n${text}`;
      return [entry("user", quoted, { source: "client", quoted_role: "tool" })];
    }
  }
}

/** Returns the text of a message, with text parts on lines of their own, and its attachments. */
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
      // Typed clients send null for absent fields.
      if (type !== undefined && type !== null && type !== "text") take(`content.${at}`, () => takePart(part));
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

/** Refuses malformed calls. The calls are ignored otherwise, but the client should learn of its mistake. */
function checkCalls(calls: unknown, index: number): void {
  if (calls === undefined || calls === null) return;
  if (!Array.isArray(calls)) throw malformed(index, "tool_calls", "must be a list");
  for (const [at, call] of calls.entries()) {
    const text: unknown = call?.function?.arguments;
    // Some clients send no arguments for a function without parameters.
    if (text === undefined || text === "") continue;
    try {
      JSON.parse(String(text));
    } catch {
      throw malformed(index, `tool_calls.${at}.function.arguments`, "must be JSON");
    }
  }
}

function userEntry(content: string, name: string | null, attachments: readonly Attachment[] = none): LogEntry {
  return entry("user", content, attachments.length === 0 ? {} : { attachments }, name);
}

/** Returns the entry of a text that is not the caller's: data for the model, which taints the run. */
function quotedEntry({ source, note, text }: QuotedText): LogEntry {
  return entry("user", fenced(text, note), { source: "client", taint: [source] });
}

function entry(
  role: "user" | "assistant" | "system",
  content: string,
  metadata: Readonly<Record<string, unknown>>,
  name: string | null = null,
): LogEntry {
  const hasMetadata = Object.keys(metadata).length > 0;
  const extra =
    name === null && !hasMetadata ? null : { ...(name === null ? {} : { name }), ...(hasMetadata ? { metadata } : {}) };
  return { kind: "message", role, content, extra };
}

/** Builds the refusal of a turn without a user message. If only unsupported parts were sent, the message lists them. */
function nothingToAnswer(messages: readonly ClientMessage[], dropped: readonly string[]): SvcError {
  const ofUser = dropped.filter((part) => !part.includes(" of role "));
  if (ofUser.length === 0 || !messages.some(({ role }) => role === "user"))
    return new SvcError("messages_or_template_required");
  const left = "The user's messages have only parts that are not supported";
  const message = `${left}: ${ofUser.join(", ")}. Send text, images or uploaded files.`;
  return new SvcError("messages_or_template_required", { message });
}

function malformed(index: number, field: string, msg: string): SvcError {
  const path = field.split(".").map((part) => (/^\d+$/.test(part) ? Number(part) : part));
  return new SvcError("invalid_request", {
    detail: [{ loc: ["body", "messages", index, ...path], msg: `messages: ${field} ${msg}`, type: "value_error" }],
  });
}
