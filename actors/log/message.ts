import type { EventExtra, LogEvent, ToolCall } from "../../storage/tables/events.ts";
import { chatMessage } from "../models/chat-messages.ts";
import type { ModelMessage, SignedThought } from "../models/provider.ts";
import { carrySkills } from "./active-skills.ts";
import { type Attachment, attachmentsOf, shownAttachments } from "./attachment.ts";
import { type LogEntry, seqOfEntry } from "./entry.ts";

/** One message of the model's context. Its JSON texts are rendered once and joined for each model call and reply of the turn. */
export interface ContextMessage extends ModelMessage {
  /** Null for none: most messages are text only. */
  readonly attachments: readonly Attachment[] | null;
  /** JSON for clients: `{role, content, name?, tool_calls?: [{id, name, args}], tool_call_id?}`. */
  readonly clientJson: string;
  /** The sequence number of its event; -1 if it was not read from a log. See `seqOf`. */
  readonly seq: number;
  /** The entry that it was or will be written as; null if it was read from a log or is never written. */
  readonly entry: LogEntry | null;
  /**
   * Position among the messages that were read with it: consecutive positions are adjacent in the branch. -1 if unknown. The
   * reader of the log assigns it once.
   */
  place: number;
  /** How the message is shortened; null if it is complete. */
  readonly short: ShortForm | "cleared" | null;
  /** Untrusted sources of the text; null for none. */
  readonly taint: readonly string[] | null;
}

/** The shown part of a message: its first characters, with or without images. */
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
  /** Absent for that of the entry. */
  readonly taint?: readonly string[] | null;
}

/** Returns a message with its two JSON texts: for clients and for providers. */
export function contextMessage(parts: MessageParts): ContextMessage {
  const { role, content, name, tool_calls, tool_call_id, attachments = null } = parts;
  const head = `{"role":"${role}","content":${JSON.stringify(content)}`;
  let clientJson = head;
  if (name !== undefined) clientJson += `,"name":${JSON.stringify(name)}`;
  if (tool_calls !== undefined && tool_calls.length > 0) clientJson += `,"tool_calls":${JSON.stringify(tool_calls)}`;
  if (tool_call_id !== undefined) clientJson += `,"tool_call_id":${JSON.stringify(tool_call_id)}`;
  clientJson += "}";
  // Most messages have the same text for both. Providers must not receive a blank reply.
  const isPlain = clientJson.length === head.length + 1 && (role !== "assistant" || content.trim() !== "");
  return {
    role,
    content,
    tool_calls: tool_calls ?? null,
    tool_call_id: tool_call_id ?? null,
    attachments: shownAttachments(attachments),
    thoughts: parts.thoughts ?? null,
    seq: parts.seq ?? -1,
    entry: parts.entry ?? null,
    place: -1,
    short: parts.short ?? null,
    taint: parts.taint ?? taintOf(parts.entry?.extra),
    clientJson,
    wireJson: isPlain ? clientJson : chatMessage(parts),
  };
}

/** Returns the message's sequence number in the thread's log; -1 if it has none. */
export function seqOf({ seq, entry }: ContextMessage): number {
  return entry === null ? seq : seqOfEntry(entry);
}

/** Returns the model's view of an event; null for most kinds, which are for people only. */
export function messageOf(event: LogEvent): ContextMessage | null {
  if (event.role === null) return null;
  const inContext =
    event.kind === "message" ||
    event.kind === "tool_result" ||
    (event.kind === "custom" && event.extra?.metadata?.in_context === true);
  if (!inContext) return null;
  if (event.kind === "custom") return customMessage(event);
  if (isThoughtOnly(event)) return null;
  const message = contextMessage({
    role: event.role,
    content: event.content,
    name: event.kind === "tool_result" ? undefined : event.extra?.name,
    tool_calls: event.extra?.tool_calls,
    tool_call_id: event.extra?.tool_call_id,
    attachments: attachmentsOf(event.extra),
    thoughts: signedThoughts(event.extra?.metadata?.thinking),
    seq: event.seq,
    taint: taintOf(event.extra),
  });
  if (event.role === "user" && event.kind === "message") carrySkills(message, event.extra?.metadata?.skills);
  return message;
}

/** True for a reply that failed or was stopped before its first word; providers refuse empty messages. */
function isThoughtOnly({ role, content, extra }: LogEvent): boolean {
  return role === "assistant" && content === "" && extra?.metadata?.status !== undefined;
}

/**
 * Returns the model's view of an entry that a client or the service added: a user message, marked if a client supplied it. It
 * has neither the authority of the manifest nor of the user (decision 13: client history has no authority).
 */
function customMessage({ seq, role, content, extra }: LogEvent): ContextMessage | null {
  if (content === "") return null;
  const taint = taintOf(extra);
  if (role === "assistant") return contextMessage({ role, content, seq, taint });
  const isClients = extra?.metadata?.type === "custom";
  return contextMessage({
    role: "user",
    content: isClients ? `[The client supplied this entry.]\n${content}` : content,
    seq,
    taint,
  });
}

/** Returns the untrusted sources of an event; null for none. */
export function taintOf(extra: EventExtra | null | undefined): readonly string[] | null {
  const taint = extra?.metadata?.taint;
  return Array.isArray(taint) && taint.length > 0 ? (taint as string[]) : null;
}

/** Returns the thoughts that can be sent back to the model that produced them; null for none. */
export function signedThoughts(blocks: unknown): readonly SignedThought[] | null {
  if (!Array.isArray(blocks)) return null;
  const signed = blocks.filter((block) => typeof block?.by === "string");
  return signed.length === 0 ? null : (signed as SignedThought[]);
}

/** Returns the approximate number of characters that a message holds in memory. */
export function messageLength({ content, thoughts, attachments }: ContextMessage): number {
  return content.length + attachedLength(attachments) + (thoughts === null ? 0 : thoughtsLength(thoughts));
}

/** Returns the characters of attachments; a data: URL is held completely. */
export function attachedLength(attachments: readonly Attachment[] | null): number {
  return attachments === null ? 0 : attachments.reduce((sum, { url }) => sum + url.length, 0);
}

/** Returns the characters of thoughts and their signatures. */
export function thoughtsLength(thoughts: readonly SignedThought[]): number {
  let length = 0;
  for (const thought of thoughts) {
    if (thought.type === "thinking") length += thought.thinking.length + thought.signature.length;
    else length += thought.type === "vendor" ? thought.json.length : thought.data.length;
  }
  return length;
}
