import type { EventExtra, EventKind, EventRole } from "../../storage/tables/events.ts";

/** An event to be appended; its sequence number, parent and time are given by the log. */
export interface JournalEntry {
  readonly kind: EventKind;
  readonly role: EventRole | null;
  readonly content: string;
  readonly extra: EventExtra | null;
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
