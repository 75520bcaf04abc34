import type { EventExtra, EventKind, EventRole } from "../../storage/tables/events.ts";

/** An event to append; the log assigns its sequence number, parent and time. */
export interface LogEntry {
  readonly kind: EventKind;
  readonly role: EventRole | null;
  readonly content: string;
  readonly extra: EventExtra | null;
  /** The entry's position in the log; known in this thread only, and absent before it is written. */
  [placed]?: { seq: number };
}

// Not a WeakMap: entries are short-lived, and each garbage collection would scan its table.
const placed = Symbol("placed");

/** Assigns consecutive sequence numbers to the entries, starting at `first`. */
export function numberEntries(entries: readonly LogEntry[], first: number): void {
  for (let at = 0; at < entries.length; at++) placeOf(entries[at] as LogEntry).seq = first + at;
}

/** Makes `written` share the position of `entry`, because it is appended instead. */
export function standsFor(written: LogEntry, entry: LogEntry): LogEntry {
  written[placed] = placeOf(entry);
  return written;
}

/** Returns the sequence number of an entry; -1 if it has none. */
export function seqOfEntry(entry: LogEntry): number {
  return entry[placed]?.seq ?? -1;
}

/**
 * Adds the run's id to an entry, so that a replay of the request finds it. The entry for an interrupted run is excluded, because
 * the replay's last frame reports that end.
 */
export function withOrigin<E extends Pick<LogEntry, "extra">>(entry: E, runId: string): E {
  const { extra } = entry;
  if (extra?.metadata?.type === interrupted) return entry;
  return { ...entry, extra: { ...extra, metadata: { ...extra?.metadata, origin_request: runId } } };
}

function placeOf(entry: LogEntry): { seq: number } {
  entry[placed] ??= { seq: -1 };
  return entry[placed];
}

const interrupted = "run_interrupted";

/** Returns the entry for a turn that was interrupted; not in the model's context. */
export function interruptedEntry(runId: string, reason: string): LogEntry {
  return {
    kind: "audit",
    role: null,
    content: "",
    extra: { metadata: { type: interrupted, run_id: runId, reason } },
  };
}

/** Returns the entry at which a run continues a dead one; not in the model's context. */
export function requeuedEntry(runId: string, deadId: string): LogEntry {
  return {
    kind: "audit",
    role: null,
    content: "",
    extra: { metadata: { type: "run_requeued", run_id: runId, requeued_from: deadId } },
  };
}
