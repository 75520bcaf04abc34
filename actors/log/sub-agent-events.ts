import type { EventKind, EventRole, LogEvent, ToolCall } from "../../storage/tables/events.ts";
import { type LogEntry, standsFor } from "./entry.ts";

// What an agent says that another one has asked: it is no part of the conversation, so its messages and results are kept in the log
// as events outside the model's context, each with the place of the agent in the tree. They are what such an agent is taken up from.

/** What an event of a sub-agent was before it was put aside. */
interface Inner {
  readonly kind: EventKind;
  readonly role: EventRole | null;
  /** Here and not in the event's own content, which lists, searches and people take for something that was said. */
  readonly content: string;
  readonly name?: string;
  readonly tool_call_id?: string;
  readonly tool_calls?: readonly ToolCall[];
}

/** Entries of the sub-agent at this place, as the log of its run has them. */
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

/** Whether an event is of a sub-agent of the agent that was asked. */
export function isOfSubAgent({ extra }: LogEvent): boolean {
  return typeof extra?.metadata?.member === "string";
}

/** Of events of sub-agents, those of the one at this place and of its own sub-agents, as it would read them itself. */
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
