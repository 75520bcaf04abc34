import type { LogEvent } from "../../../storage/tables/events.ts";
import type { LogEntry } from "../../log/entry.ts";

// What a pattern writes down so that it finds its place again: after its own kind of step, and outside the model's context. Steps
// are counted from the last note on.

/** A note of a pattern in the log of its run. */
export interface RunNote {
  readonly type: NoteType;
  readonly [field: string]: unknown;
}

const noteTypes = [
  "output_misfit",
  "held_answer",
  "draft",
  "plan",
  "subtask",
  "route",
  "member_end",
  "escalation",
] as const;
type NoteType = (typeof noteTypes)[number];

/** What a note is in the log. */
export function noteEntry(type: NoteType, fields: Readonly<Record<string, unknown>>): LogEntry {
  return { kind: "audit", role: null, content: "", extra: { metadata: { type, ...fields } } };
}

/** The note that an event is, null when it is none. */
export function noteOf({ kind, extra }: LogEvent): RunNote | null {
  if (kind !== "audit") return null;
  const type = extra?.metadata?.type;
  return noteTypes.some((known) => known === type) ? (extra?.metadata as unknown as RunNote) : null;
}
