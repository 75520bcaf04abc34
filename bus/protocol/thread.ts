import type { ChannelRef } from "./channel.ts";
import type { JsonText } from "./json-text.ts";
import type { EndLease, TakeLease, TakenLease } from "./lease.ts";
import type { PermissionMode } from "./permission-mode.ts";
import type { Principal } from "./principal.ts";
import type { AbortReason } from "./run.ts";
import type { ThinkingLevel } from "./thinking.ts";

/**
 * One conversation: the only writer of its log, and the only one to say which run may write. What runs and threads say to each
 * other speaks of rows and stands in `actors/log/messages.ts`.
 */
export interface ThreadMessages {
  /** Stops the live run and answers when it has stopped. */
  abort: { body: { reason: AbortReason }; reply: { aborted: boolean } };
  /** Where the log stands and which run is live; ask that one for what it has said since. Subscribe before asking. */
  attach: { body: Record<string, never>; reply: ThreadPosition };
  /** Says how hard the model is to think from the next run on; null leaves it to the manifest. Makes the conversation if it is not there. */
  think: { body: { level: ThinkingLevel | null }; reply: { level: ThinkingLevel | null } };
  /**
   * Picks the style of answering from the next run on; makes the conversation if it is not there. Refuses with manifest_required,
   * unknown_style and with what the manifest is refused with.
   */
  style: { body: PickStyle; reply: PickedStyle };
  /**
   * Takes, renews or changes a client's hold; makes the conversation if it is not there. Refuses with lease_held while another client
   * drives, and with lease_contended.
   */
  lease: { body: TakeLease; reply: TakenLease };
  /** Ends a client's hold. Refuses with token_required, token_mismatch, not_holder and lease_contended. */
  end_lease: { body: EndLease; reply: { readonly released: boolean } };
  /**
   * Sets what runs may do without asking, from the next one on; makes the conversation if it is not there. Refuses with missing_scopes,
   * mode_not_allowed and with what the manifest is refused with.
   */
  mode: { body: SetMode; reply: { readonly mode: PermissionMode } };
  /**
   * Deletes the conversation, given a time only if nothing has happened in it since and nobody has a lease of it. Refuses with
   * run_in_progress while one is live.
   */
  erase: { body: { readonly idle_since?: number }; reply: { deleted: boolean } };
  /** Deletes the record of a run that is over, and says whether there are others. Refuses with run_in_progress while one is live. */
  forget: { body: { readonly run_key: number }; reply: { readonly others: boolean } };
  /**
   * Copies a branch of another conversation into this one, which is there when all is copied. Refuses with thread_exists and
   * unknown_thread.
   */
  fork: { body: ForkThread; reply: ForkedThread };
  /**
   * Moves the leaf back; what came after leaves the active branch. Refuses with unknown_event_id, with run_in_progress, and with what
   * the manifest of a summary is refused with.
   */
  rewind: { body: RewindThread; reply: RewoundThread };
  /** Names the conversation. This and the three below refuse with unknown_thread. */
  name: { body: { readonly name: string }; reply: Record<string, never> };
  /** Labels an event, or takes its label away. Refuses with unknown_event_id. */
  label: { body: { readonly event_id: string; readonly label: string | null }; reply: Record<string, never> };
  /** Rates a reply, or takes the rating back. Refuses with unknown_event_id and not_an_assistant_message. */
  rate: { body: RateReply; reply: { readonly at: number } };
  /** Appends an entry of the client's. */
  custom: { body: CustomEntry; reply: { readonly event_id: string } };
  /**
   * Says something that waits for the run, the live one or the next; makes the conversation if it is not there. Refuses with
   * queue_full.
   */
  steer: { body: SteerThread; reply: { readonly queued: SteerThread["kind"] } };
  /**
   * Lets the model know of something that has been done beside the conversation: before its next call while a run has it, at once
   * otherwise. Makes the conversation if it is not there. Refuses with queue_full.
   */
  note: { body: ThreadNote; reply: TakenNote };
  /** Closes what a crash has left open; loading does it. */
  recover: { body: Record<string, never>; reply: Record<string, never> };
}

/** A style for a conversation. */
export interface PickStyle {
  /** Null uses the manifest's level. */
  readonly style: string | null;
  /** The manifest that declares it; null for the conversation's last. */
  readonly manifest: string | null;
  readonly principal: Principal;
}

/** A permission mode for a conversation. */
export interface SetMode {
  readonly mode: PermissionMode;
  /** The manifest that must allow it; null for the conversation's last. */
  readonly manifest: string | null;
  readonly principal: Principal;
}

/** The style as the manifest writes its name. */
export interface PickedStyle {
  readonly style: string | null;
}

/** What a person says to a run. */
export interface SteerThread {
  readonly text: string;
  /** `steer`: as soon as what runs is over. `follow_up`: when the run would end. */
  readonly kind: "steer" | "follow_up";
  readonly principal: Principal;
}

/** What the service tells the model. Its words are the service's own: what others have written stands in it quoted. */
export interface ThreadNote {
  /** What it is about. Of one subject only the newest note waits. */
  readonly subject: string;
  readonly content: string;
  /** Of its event, with the `type`. */
  readonly metadata: Readonly<Record<string, unknown>> & { readonly type: string };
  /** What those who listen are told when a run puts it before its model; null for nothing. */
  readonly frame: { readonly name: string; readonly data: Readonly<Record<string, unknown>> } | null;
}

/** What became of a note: it waits for the run, or is in the log. */
export interface TakenNote {
  readonly status: "queued" | "recorded";
  readonly event_id: string | null;
}

/** Where a thread stands, for those who come to listen. */
export interface ThreadPosition {
  /** The sequence number of the next event; everything below it can be read. */
  readonly next_seq: number;
  /** The newest of those events on the active branch, -1 in an empty thread. */
  readonly leaf_seq: number;
  /** The live run, null when there is none. */
  readonly run_id: string | null;
  /** The durable run that is not over, be it live, suspended or accepted; null when there is none. */
  readonly durable_run: string | null;
  /** A branch that was left is being summed up. */
  readonly summarizing: boolean;
  /** The live run is one that compacts the conversation. */
  readonly compacting: boolean;
  /** The live run is one that takes the conversation on. */
  readonly continuing: boolean;
  /** Messages that wait for a run. */
  readonly queued_steers: number;
  readonly queued_follow_ups: number;
}

/** A branch to be copied. */
export interface ForkThread {
  /** The suffix of the conversation that it is copied from. */
  readonly source: string;
  /** The last event; one that there is not means the leaf. */
  readonly event_id: string | null;
  /** Whether the copy may end in calls that a client was handed: it answers them there. */
  readonly open_calls?: boolean;
}

/** What was copied. */
export interface ForkedThread {
  readonly copied: number;
  readonly leaf_id: string | null;
}

/** Where a conversation is to go back to, and whether what is left is to be summed up. */
export interface RewindThread {
  readonly event_id: string;
  /** Null: as the manifest says. */
  readonly summarize: boolean | null;
  /** For the model that sums it up. */
  readonly instructions: string;
  /** Null: the conversation's last. */
  readonly manifest: string | null;
  readonly principal: Principal;
  readonly request_id: string;
  /** Where the summary goes, as JSON of `BranchSummary`. */
  readonly channel: ChannelRef;
}

/** The leaf was moved. With `summarizing` the summary follows on the channel. */
export interface RewoundThread {
  readonly leaf_id: string;
  readonly summarizing: boolean;
}

/** What was left of a conversation, in few words. */
export interface BranchSummary {
  /** False when the model has not given it, or it could not be kept. */
  readonly ok: boolean;
  readonly summary: string;
  /** Null when it is not in the log. */
  readonly event_id: string | null;
  /** The leaf of the branch that was left. */
  readonly fromId: string;
  readonly details: { readonly readFiles: readonly string[]; readonly modifiedFiles: readonly string[] };
}

/** What somebody thinks of a reply. */
export interface RateReply {
  readonly event_id: string;
  readonly rating: "up" | "down" | null;
  readonly note: string;
  readonly principal: Principal;
}

/** What a client adds to a conversation. */
export interface CustomEntry {
  readonly content: string;
  readonly role: "user" | "assistant" | "system";
  /** Whether the model gets to see it. */
  readonly in_context: boolean;
  readonly metadata: JsonText<Readonly<Record<string, unknown>>>;
}
