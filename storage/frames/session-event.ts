import { frame } from "../../bus/frames/frames.ts";
import { type EventExtra, eventId, type LogEvent } from "../tables/events.ts";

/**
 * Returns an event of the log in its stream form (document 1, "Session event"). Signatures and other metadata are left
 * out.
 */
function sessionEvent(uid: string, event: LogEvent) {
  const { extra } = event;
  const metadata = readableMetadata(extra);
  return {
    id: eventId(uid, event.seq),
    seq: event.seq,
    kind: event.kind,
    role: event.role,
    content: event.content,
    name: extra?.name ?? null,
    ...(extra?.tool_call_id === undefined ? {} : { tool_call_id: extra.tool_call_id }),
    ...(extra?.tool_calls === undefined ? {} : { tool_calls: extra.tool_calls }),
    ...(metadata === null ? {} : { metadata }),
  };
}

/** Returns the public metadata of an event, thinking, attachments and quoted sources; null if it has none. */
function readableMetadata(extra: EventExtra | null): Record<string, unknown> | null {
  if (extra?.metadata === undefined) return null;
  const thinking = readableThinking(extra.metadata.thinking);
  const { attachments, sources } = extra.metadata;
  if (thinking === null && attachments === undefined && sources === undefined) return null;
  return {
    ...(thinking !== null && { thinking }),
    ...(attachments !== undefined && { attachments }),
    ...(sources !== undefined && { sources }),
  };
}

/** Returns the session_event frame of an event. Its id is the sequence number of the next event. */
export function sessionEventFrame(uid: string, event: LogEvent): string {
  return frame("session_event", sessionEvent(uid, event), event.seq + 1);
}

/** Returns the reasoning text without the signatures of providers; null if there is none. */
export function readableThinking(blocks: unknown): { type: "thinking"; thinking: string }[] | null {
  if (!Array.isArray(blocks)) return null;
  const readable = blocks
    .filter((block) => block?.type === "thinking" && typeof block.thinking === "string" && block.thinking !== "")
    .map((block) => ({ type: "thinking" as const, thinking: block.thinking as string }));
  return readable.length === 0 ? null : readable;
}
