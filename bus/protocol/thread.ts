import type { ChannelRef } from "./channel.ts";
import type { JsonText } from "./json-text.ts";
import type { EndLease, TakeLease, TakenLease } from "./lease.ts";
import type { PermissionMode } from "./permission-mode.ts";
import type { Principal } from "./principal.ts";
import type { AbortReason } from "./run.ts";
import type { ThinkingLevel } from "./thinking.ts";

/**
 * Messages to a thread: the only writer of its log, which also decides the run that may write. Messages between runs
 * and threads refer to rows and are in `actors/log/messages.ts`.
 */
export interface ThreadMessages {
  /** Stops the live run and replies when it has stopped. */
  abort: { body: { reason: AbortReason }; reply: { aborted: boolean } };
  /**
   * Returns the position of the log and the live run; ask that run for its text since then. Subscribe before asking.
   */
  attach: { body: Record<string, never>; reply: ThreadPosition };
  /** Sets the thinking level from the next run on; null restores the manifest's. Creates a missing thread. */
  think: { body: { level: ThinkingLevel | null }; reply: { level: ThinkingLevel | null } };
  /**
   * Sets the output style from the next run on. Creates a missing thread. Refuses with manifest_required,
   * unknown_style, and if the manifest is invalid.
   */
  style: { body: PickStyle; reply: PickedStyle };
  /**
   * Takes, renews or changes a client's hold. Creates a missing thread. Refuses with lease_held while another client
   * drives, and with lease_contended.
   */
  lease: { body: TakeLease; reply: TakenLease };
  /** Ends a client's hold. Refuses with token_required, token_mismatch, not_holder and lease_contended. */
  end_lease: { body: EndLease; reply: { readonly released: boolean } };
  /**
   * Sets the permission mode from the next run on. Creates a missing thread. Refuses with missing_scopes,
   * mode_not_allowed, and if the manifest is invalid.
   */
  mode: { body: SetMode; reply: { readonly mode: PermissionMode } };
  /**
   * Deletes the thread; with `idle_since` only if it has had no activity since then and no lease. Refuses with
   * run_in_progress during a live run.
   */
  erase: { body: { readonly idle_since?: number }; reply: { deleted: boolean } };
  /**
   * Deletes the row of an ended run; returns whether there are others. Refuses with run_in_progress during a live run.
   */
  forget: { body: { readonly run_key: number }; reply: { readonly others: boolean } };
  /**
   * Copies a branch of another thread into this one, which becomes visible when the copy is complete. Refuses with
   * thread_exists and unknown_thread.
   */
  fork: { body: ForkThread; reply: ForkedThread };
  /**
   * Moves the leaf back; later events leave the active branch. Refuses with unknown_event_id, with run_in_progress, and
   * if the manifest for the summary is invalid.
   */
  rewind: { body: RewindThread; reply: RewoundThread };
  /** Names the thread. This message and the three below refuse with unknown_thread. */
  name: { body: { readonly name: string }; reply: Record<string, never> };
  /** Sets or removes the label of an event. Refuses with unknown_event_id. */
  label: { body: { readonly event_id: string; readonly label: string | null }; reply: Record<string, never> };
  /** Sets or removes the rating of a reply. Refuses with unknown_event_id and not_an_assistant_message. */
  rate: { body: RateReply; reply: { readonly at: number } };
  /** Appends an entry of the client. */
  custom: { body: CustomEntry; reply: { readonly event_id: string } };
  /**
   * Appends a record of the service or of a plugin, which no model sees; a fork copies it. Refuses with unknown_thread, and with
   * conflict if the newest record of its type is not `after`.
   */
  record: { body: ThreadRecord; reply: { readonly seq: number } };
  /**
   * Queues a message for the live run, or for the next one. Creates a missing thread. Refuses with queue_full, with
   * run_finished if the message is for a run that is not live, and with conflict if the thread has got another manifest
   * since the text was screened.
   */
  steer: { body: SteerThread; reply: { readonly queued: SteerThread["kind"] } };
  /**
   * Informs the model of an action outside the thread: before the next call of a live run, else at once in the log.
   * Creates a missing thread. Refuses with queue_full.
   */
  note: { body: ThreadNote; reply: TakenNote };
  /** Closes runs that a crash has interrupted. Loading the actor does it. */
  recover: { body: Record<string, never>; reply: Record<string, never> };
}

/** An output style for a thread. */
export interface PickStyle {
  /** Null uses the manifest's level. */
  readonly style: string | null;
  /** The manifest that declares it; null for the thread's last one. */
  readonly manifest: string | null;
  readonly principal: Principal;
}

/** A permission mode for a thread. */
export interface SetMode {
  readonly mode: PermissionMode;
  /** The manifest that must allow it; null for the thread's last one. */
  readonly manifest: string | null;
  readonly principal: Principal;
}

/** The style's name as the manifest spells it. */
export interface PickedStyle {
  readonly style: string | null;
}

/** A user's message to a run. */
export interface SteerThread {
  readonly text: string;
  /** `steer`: after the current calls. `follow_up`: when the run would end. */
  readonly kind: "steer" | "follow_up";
  readonly principal: Principal;
  /** The only run that the message is for; absent for any run. */
  readonly run_id?: string;
  /**
   * The manifest whose controls have screened the text: that of the thread, or empty if the thread has none. Absent for a
   * text that needs no screening.
   */
  readonly screened?: string;
}

/** A note from the service to the model. Its text is the service's own; texts of others are quoted. */
export interface ThreadNote {
  /** Topic of the note; only the newest one of a topic is queued. */
  readonly subject: string;
  readonly content: string;
  /** Metadata of its event, including the `type`. */
  readonly metadata: Readonly<Record<string, unknown>> & { readonly type: string };
  /** Frame for subscribers when a run shows the note to its model; null for none. */
  readonly frame: { readonly name: string; readonly data: Readonly<Record<string, unknown>> } | null;
}

/** Outcome of a note: queued for the run, or in the log. */
export interface TakenNote {
  readonly status: "queued" | "recorded";
  readonly event_id: string | null;
}

/** Position of a thread, for a new subscriber. */
export interface ThreadPosition {
  /** Sequence number of the next event; all events below it can be read. */
  readonly next_seq: number;
  /** The newest event of the active branch, -1 in an empty thread. */
  readonly leaf_seq: number;
  /** The live run; null if there is none. */
  readonly run_id: string | null;
  /** The open durable run, whether live, suspended or accepted; null if there is none. */
  readonly durable_run: string | null;
  /** True while an abandoned branch is summarized. */
  readonly summarizing: boolean;
  /** True if the live run compacts the thread. */
  readonly compacting: boolean;
  /** True if the live run is a /chat/continue. */
  readonly continuing: boolean;
  /** Number of queued messages for a run. */
  readonly queued_steers: number;
  readonly queued_follow_ups: number;
}

/** A branch to copy. */
export interface ForkThread {
  /** The suffix of the source thread. */
  readonly source: string;
  /** The last event to copy; an unknown id means the leaf. */
  readonly event_id: string | null;
  /** True if the copy may end in calls that the client answers there. */
  readonly open_calls?: boolean;
}

/** Result of a copy. */
export interface ForkedThread {
  readonly copied: number;
  readonly leaf_id: string | null;
}

/** Target of a rewind, and options of the summary. */
export interface RewindThread {
  readonly event_id: string;
  /** Null for the manifest's setting. */
  readonly summarize: boolean | null;
  /** For the model that writes the summary. */
  readonly instructions: string;
  /** Null for the thread's last one. */
  readonly manifest: string | null;
  readonly principal: Principal;
  readonly request_id: string;
  /** Channel for the summary, as JSON of `BranchSummary`. */
  readonly channel: ChannelRef;
}

/** Result of a rewind. With `summarizing`, the summary follows on the channel. */
export interface RewoundThread {
  readonly leaf_id: string;
  readonly summarizing: boolean;
}

/** Summary of an abandoned branch. */
export interface BranchSummary {
  /** False if the model failed, or the summary could not be stored. */
  readonly ok: boolean;
  readonly summary: string;
  /** Null if it is not in the log. */
  readonly event_id: string | null;
  /** The leaf of the abandoned branch. */
  readonly fromId: string;
  readonly details: { readonly readFiles: readonly string[]; readonly modifiedFiles: readonly string[] };
}

/** A user's rating of a reply. */
export interface RateReply {
  readonly event_id: string;
  readonly rating: "up" | "down" | null;
  readonly note: string;
  readonly principal: Principal;
}

/** A record in the log of a thread, such as the state of a cart. */
export interface ThreadRecord {
  /** The kind of record; the newest of a type counts, on any branch. */
  readonly type: string;
  readonly data: JsonText<Readonly<Record<string, unknown>>>;
  /** Sequence number of the newest record of the type, -1 for none. */
  readonly after: number;
}

/** A client's entry in a thread. */
export interface CustomEntry {
  readonly content: string;
  readonly role: "user" | "assistant" | "system";
  /** True if the model sees it. */
  readonly in_context: boolean;
  readonly metadata: JsonText<Readonly<Record<string, unknown>>>;
}
