import type { EventExtra, EventKind, EventRole } from "../../storage/tables/events.ts";

/** An event to be appended; its sequence number, parent and time are given by the log. */
export interface LogEntry {
  readonly kind: EventKind;
  readonly role: EventRole | null;
  readonly content: string;
  readonly extra: EventExtra | null;
  /** Where it stands in the log, for this thread alone; one that was never written is not in it. */
  [placed]?: { seq: number };
}

// Not a WeakMap: entries come and go with every turn, and each collection would go through its table.
const placed = Symbol("placed");

/** Says that these entries stand in the log one after the other, the first of them at `first`. */
export function numberEntries(entries: readonly LogEntry[], first: number): void {
  for (let at = 0; at < entries.length; at++) placeOf(entries[at] as LogEntry).seq = first + at;
}

/** Says that `written` goes into the log in the place of `entry`. */
export function standsFor(written: LogEntry, entry: LogEntry): LogEntry {
  written[placed] = placeOf(entry);
  return written;
}

/** The sequence number of an entry, -1 while it has none. */
export function seqOfEntry(entry: LogEntry): number {
  return entry[placed]?.seq ?? -1;
}

/**
 * Marks an entry with its run, so that a replay of the request finds it. The mark of an interrupted run stays as it is: the last frame of
 * the replay tells that end.
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

/** Marks a turn that did not end by itself; outside the model's context. */
export function interruptedEntry(runId: string, reason: string): LogEntry {
  return {
    kind: "audit",
    role: null,
    content: "",
    extra: { metadata: { type: interrupted, run_id: runId, reason } },
  };
}

/** Marks where a run goes on with another one, which is dead; outside the model's context. */
export function requeuedEntry(runId: string, deadId: string): LogEntry {
  return {
    kind: "audit",
    role: null,
    content: "",
    extra: { metadata: { type: "run_requeued", run_id: runId, requeued_from: deadId } },
  };
}
