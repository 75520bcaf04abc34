import { frame } from "../../bus/frames/frames.ts";
import { type EventExtra, eventId, type LogEvent } from "../tables/events.ts";

/** An event of the log as streams carry it (document 1, "Session event"). Signatures and other metadata stay inside. */
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

/** What a person may read of an event's metadata: thinking and attachments; null when there is neither. */
function readableMetadata(extra: EventExtra | null): Record<string, unknown> | null {
  if (extra?.metadata === undefined) return null;
  const thinking = readableThinking(extra.metadata.thinking);
  const { attachments } = extra.metadata;
  if (thinking === null && attachments === undefined) return null;
  return { ...(thinking !== null && { thinking }), ...(attachments !== undefined && { attachments }) };
}

/** The session_event frame of an event; its id is the sequence number that follows it. */
export function sessionEventFrame(uid: string, event: LogEvent): string {
  return frame("session_event", sessionEvent(uid, event), event.seq + 1);
}

/** Reasoning that a person may read: text only, without the signatures that providers put beside it; null when there is none. */
export function readableThinking(blocks: unknown): { type: "thinking"; thinking: string }[] | null {
  if (!Array.isArray(blocks)) return null;
  const readable = blocks
    .filter((block) => block?.type === "thinking" && typeof block.thinking === "string" && block.thinking !== "")
    .map((block) => ({ type: "thinking" as const, thinking: block.thinking as string }));
  return readable.length === 0 ? null : readable;
}
