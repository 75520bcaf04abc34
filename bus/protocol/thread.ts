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
  /** Deletes the conversation. Refuses with run_in_progress while one is live. */
  erase: { body: Record<string, never>; reply: { deleted: boolean } };
  /** Deletes the record of a run that is over, and says whether there are others. Refuses with run_in_progress while one is live. */
  forget: { body: { readonly run_key: number }; reply: { readonly others: boolean } };
  /** Closes what a crash has left open; loading does it. */
  recover: { body: Record<string, never>; reply: Record<string, never> };
}

/** A style for a conversation. */
export interface PickStyle {
  /** Null leaves it to the manifest. */
  readonly style: string | null;
  /** The manifest that declares it; null for the conversation's last. */
  readonly manifest: string | null;
  readonly principal: Principal;
}

/** The style as the manifest writes its name. */
export interface PickedStyle {
  readonly style: string | null;
}

/** Where a thread stands, for those who come to listen. */
export interface ThreadPosition {
  /** The sequence number of the next event; everything below it can be read. */
  readonly next_seq: number;
  /** The live run, null when there is none. */
  readonly run_id: string | null;
}
