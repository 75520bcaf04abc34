import type { EventKind, EventRole, LogEvent, ToolCall } from "../../storage/tables/events.ts";
import { type LogEntry, standsFor } from "./entry.ts";

// Events of sub-agents. Their messages and results are not part of the thread's conversation. The log stores them outside the
// model's context, with the sub-agent's position in the tree. A suspended sub-agent is rebuilt from them.

/** The original fields of a sub-agent's event. */
interface Inner {
  readonly kind: EventKind;
  readonly role: EventRole | null;
  /** Stored here and not in the event's content, which lists, searches and people would take for a message of the thread. */
  readonly content: string;
  readonly name?: string;
  readonly tool_call_id?: string;
  readonly tool_calls?: readonly ToolCall[];
}

/** Converts entries of the sub-agent at this position to the form in which the run's log stores them. */
export function ofSubAgent(entries: readonly LogEntry[], place: string): LogEntry[] {
  return entries.map((entry) => standsFor(innerEntry(entry, place), entry));
}

function innerEntry(entry: LogEntry, place: string): LogEntry {
  const { kind, role, content, extra } = entry;
  const { name, tool_call_id, tool_calls, metadata } = extra ?? {};
  const member = typeof metadata?.member === "string" ? `${place}/${metadata.member}` : place;
  if (kind !== "message" && kind !== "tool_result")
    return { ...entry, extra: { ...extra, metadata: { ...metadata, member } } };
  const inner: Inner = {
    kind,
    role,
    content,
    ...(name !== undefined && { name }),
    ...(tool_call_id !== undefined && { tool_call_id }),
    ...(tool_calls !== undefined && { tool_calls }),
  };
  return {
    kind: "audit",
    role: null,
    content: "",
    extra: { metadata: { ...metadata, type: "member", member, inner } },
  };
}

/** True if the event belongs to a sub-agent. */
export function isOfSubAgent({ extra }: LogEvent): boolean {
  return typeof extra?.metadata?.member === "string";
}

/** Returns the events of the sub-agent at this position and of its own sub-agents, in the form in which it wrote them. */
export function eventsAt(events: readonly LogEvent[], place: string): LogEvent[] {
  return events.flatMap((event) => {
    const { member, ...metadata } = event.extra?.metadata ?? {};
    if (member === place) return [outerEvent(event, metadata)];
    if (typeof member !== "string" || !member.startsWith(`${place}/`)) return [];
    return [{ ...event, extra: { ...event.extra, metadata: { ...metadata, member: member.slice(place.length + 1) } } }];
  });
}

function outerEvent(event: LogEvent, metadata: Readonly<Record<string, unknown>>): LogEvent {
  if (metadata.type !== "member") return { ...event, extra: { ...event.extra, metadata } };
  const { inner, type: _type, ...rest } = metadata as { inner: Inner; type: string };
  const { kind, role, content, ...parts } = inner;
  return { ...event, kind, role, content, extra: { ...parts, metadata: rest } };
}
