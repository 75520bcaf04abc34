import type { LogEvent } from "../../../storage/tables/events.ts";
import type { LogEntry } from "../../log/entry.ts";

// A pattern writes a note to the log after each step of its own, so that a resumed run finds its position. The model never sees notes.
// Steps are counted from the newest note.

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

/** Returns the log entry for a note. */
export function noteEntry(type: NoteType, fields: Readonly<Record<string, unknown>>): LogEntry {
  return { kind: "audit", role: null, content: "", extra: { metadata: { type, ...fields } } };
}

/** Returns the note of an event, or null if the event is none. */
export function noteOf({ kind, extra }: LogEvent): RunNote | null {
  if (kind !== "audit") return null;
  const type = extra?.metadata?.type;
  return noteTypes.some((known) => known === type) ? (extra?.metadata as unknown as RunNote) : null;
}
