import type { EventExtra, EventKind, EventRole } from "../../storage/tables/events.ts";

/** An event to be appended; its sequence number, parent and time are given by the log. */
export interface JournalEntry {
  readonly kind: EventKind;
  readonly role: EventRole | null;
  readonly content: string;
  readonly extra: EventExtra | null;
}

/** Where entries stand in the log; those that were never written are not in it. */
const places = new WeakMap<JournalEntry, { seq: number }>();

/** Says that these entries stand in the log one after the other, the first of them at `first`. */
export function numberEntries(entries: readonly JournalEntry[], first: number): void {
  for (const [at, entry] of entries.entries()) {
    const place = places.get(entry);
    if (place === undefined) places.set(entry, { seq: first + at });
    else place.seq = first + at;
  }
}

/** Says that `written` goes into the log in the place of `entry`. */
export function standsFor(written: JournalEntry, entry: JournalEntry): JournalEntry {
  const place = places.get(entry) ?? { seq: -1 };
  places.set(entry, place);
  places.set(written, place);
  return written;
}

/** The sequence number of an entry, -1 while it has none. */
export function seqOfEntry(entry: JournalEntry): number {
  return places.get(entry)?.seq ?? -1;
}

/** Marks a turn that did not end by itself; outside the model's context. */
export function interruptedEntry(runId: string, reason: string): JournalEntry {
  return {
    kind: "audit",
    role: null,
    content: "",
    extra: { metadata: { type: "run_interrupted", run_id: runId, reason } },
  };
}

/** Marks where a run goes on with another one, which is dead; outside the model's context. */
export function requeuedEntry(runId: string, deadId: string): JournalEntry {
  return {
    kind: "audit",
    role: null,
    content: "",
    extra: { metadata: { type: "run_requeued", run_id: runId, requeued_from: deadId } },
  };
}
