import type { LogEvent, ToolCall } from "../../storage/tables/events.ts";
import { chatMessage } from "../models/chat-messages.ts";
import type { ModelMessage, SignedThought } from "../models/provider.ts";
import { type Attachment, attachmentsOf } from "./attachment.ts";
import { type LogEntry, seqOfEntry } from "./entry.ts";

/** One message of the model's context. Its texts are made once and joined for every call and answer of the turn. */
export interface ContextMessage extends ModelMessage {
  /** Null for none: most messages are text alone. */
  readonly attachments: readonly Attachment[] | null;
  /** JSON as clients see it: `{role, content, name?, tool_calls?: [{id, name, args}], tool_call_id?}`. */
  readonly clientJson: string;
  /** The sequence number of its event; -1 where it was not read from a log. See `seqOf`. */
  readonly seq: number;
  /** What it was or will be written as, where that is known; null for one that was read from a log or is written nowhere. */
  readonly entry: LogEntry | null;
  /**
   * Its place among the messages that were read with it: between two neighbours the branch has no other message. -1 where nothing is
   * known of its neighbours. Given by who reads a log, once.
   */
  place: number;
  /** How it is shorter than its event; null for one that is not. */
  readonly short: ShortForm | "cleared" | null;
}

/** How much of a message is shown: its first characters, with or without its images. */
export interface ShortForm {
  readonly chars: number;
  readonly images: boolean;
}

interface MessageParts {
  readonly role: ContextMessage["role"];
  readonly content: string;
  readonly name?: string | undefined;
  readonly tool_calls?: readonly ToolCall[] | undefined;
  readonly tool_call_id?: string | undefined;
  readonly attachments?: readonly Attachment[] | null;
  readonly thoughts?: readonly SignedThought[] | null;
  readonly seq?: number;
  readonly entry?: LogEntry | null;
  readonly short?: ContextMessage["short"];
}

/** A message with its two JSON texts: as clients read it and as providers are sent it. */
export function contextMessage(parts: MessageParts): ContextMessage {
  const { role, content, name, tool_calls, tool_call_id, attachments = null } = parts;
  const head = `{"role":"${role}","content":${JSON.stringify(content)}`;
  let clientJson = head;
  if (name !== undefined) clientJson += `,"name":${JSON.stringify(name)}`;
  if (tool_calls !== undefined && tool_calls.length > 0) clientJson += `,"tool_calls":${JSON.stringify(tool_calls)}`;
  if (tool_call_id !== undefined) clientJson += `,"tool_call_id":${JSON.stringify(tool_call_id)}`;
  clientJson += "}";
  // Most messages have one text for both. Providers are sent no blanks in the place of an answer.
  const isPlain = clientJson.length === head.length + 1 && (role !== "assistant" || content.trim() !== "");
  return {
    role,
    content,
    tool_calls: tool_calls ?? null,
    tool_call_id: tool_call_id ?? null,
    attachments,
    thoughts: parts.thoughts ?? null,
    seq: parts.seq ?? -1,
    entry: parts.entry ?? null,
    place: -1,
    short: parts.short ?? null,
    clientJson,
    wireJson: isPlain ? clientJson : chatMessage(parts),
  };
}

/** Where a message stands in the log of its conversation; -1 for one that stands in none. */
export function seqOf({ seq, entry }: ContextMessage): number {
  return entry === null ? seq : seqOfEntry(entry);
}

/** The message that an event of the log is to the model, or null: most kinds are for people only. */
export function messageOf(event: LogEvent): ContextMessage | null {
  if (event.role === null) return null;
  const inContext =
    event.kind === "message" ||
    event.kind === "tool_result" ||
    (event.kind === "custom" && event.extra?.metadata?.in_context === true);
  if (!inContext) return null;
  if (event.kind === "custom") return customMessage(event);
  if (isThoughtOnly(event)) return null;
  return contextMessage({
    role: event.role,
    content: event.content,
    name: event.kind === "tool_result" ? undefined : event.extra?.name,
    tool_calls: event.extra?.tool_calls,
    tool_call_id: event.extra?.tool_call_id,
    attachments: attachmentsOf(event.extra),
    thoughts: signedThoughts(event.extra?.metadata?.thinking),
    seq: event.seq,
  });
}

/** A model that failed, or was stopped, before its first word: providers refuse messages that say nothing. */
function isThoughtOnly({ role, content, extra }: LogEvent): boolean {
  return role === "assistant" && content === "" && extra?.metadata?.status !== undefined;
}

/**
 * What a client has added, and what the service has: the model reads it as a user's turn, and the client's with a mark that says so.
 * It has the authority of neither the manifest nor the person (decision 13).
 */
function customMessage({ seq, role, content, extra }: LogEvent): ContextMessage | null {
  if (content === "") return null;
  if (role === "assistant") return contextMessage({ role, content, seq });
  const isClients = extra?.metadata?.type === "custom";
  return contextMessage({
    role: "user",
    content: isClients ? `[The client supplied this entry.]\n${content}` : content,
    seq,
  });
}

/** The thoughts of an event of ours that can go back to the model that had them, null when there are none. */
export function signedThoughts(blocks: unknown): readonly SignedThought[] | null {
  if (!Array.isArray(blocks)) return null;
  const signed = blocks.filter((block) => typeof block?.by === "string");
  return signed.length === 0 ? null : (signed as SignedThought[]);
}

/** Characters that a message keeps in memory, about. */
export function messageLength({ content, thoughts, attachments }: ContextMessage): number {
  return content.length + attachedLength(attachments) + (thoughts === null ? 0 : thoughtsLength(thoughts));
}

/** Characters of attachments: a data: URL is kept whole. */
export function attachedLength(attachments: readonly Attachment[] | null): number {
  return attachments === null ? 0 : attachments.reduce((sum, { url }) => sum + url.length, 0);
}

/** Characters of thoughts and of what is signed with them. */
export function thoughtsLength(thoughts: readonly SignedThought[]): number {
  let length = 0;
  for (const thought of thoughts) {
    if (thought.type === "thinking") length += thought.thinking.length + thought.signature.length;
    else length += thought.type === "vendor" ? thought.json.length : thought.data.length;
  }
  return length;
}
