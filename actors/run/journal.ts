import type { WriteOp } from "../../storage/store/store.ts";
import type { EventExtra, EventKind, EventRole } from "../../storage/tables/events.ts";

/** An event to be appended; its sequence number, parent and time are given by the log. */
export interface JournalEntry {
  readonly kind: EventKind;
  readonly role: EventRole | null;
  readonly content: string;
  readonly extra: EventExtra | null;
}

/**
 * Where a run writes what must not be lost. Appends become durable in the order in which they are made; after one has failed
 * all later ones fail.
 */
export interface Journal {
  /** The sequence number of the next event, -1 without a thread. */
  readonly nextSeq: number;
  /** Events below it are durable: what a frame may name as its id. -1 without a thread. */
  readonly durableSeq: number;
  /** Full id of the thread, empty without one. */
  readonly threadId: string;
  /** Id that the newest event will have after `count` more entries, empty without a thread. */
  leafIdAfter(count: number): string;
  /** Resolves when the entries are durable, and `ops` with them. Refuses with storage_unavailable or conflict. */
  append(entries: readonly JournalEntry[], ops?: readonly WriteOp[]): Promise<void>;
  /** The last append of the run, in one batch with `ops`; the run is no longer marked as live after it. */
  end(entries: readonly JournalEntry[], ops: readonly WriteOp[]): Promise<void>;
  /** Frames for those who listen to the thread without having started the turn; made only when somebody does. */
  publish(frames: () => string): void;
}
