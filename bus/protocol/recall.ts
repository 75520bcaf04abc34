/**
 * Messages to the actor that keeps reasoning and vendor fields for clients without a thread, whose provider requires
 * them with later calls. One process holds them in memory and may drop them. The ids of handed calls are random and
 * known to their tenant alone.
 */
export interface RecallMessages {
  /** Stores the reasoning of one step for each of its calls. */
  keep: { body: ThoughtsOfCalls };
  /** Returns the stored text of each call, in order; null for a call without one. */
  recall: { body: CallsAsked; reply: { readonly found: readonly (string | null)[] } };
}

interface CallsAsked {
  readonly tenant_id: string;
  readonly call_ids: readonly string[];
}

interface ThoughtsOfCalls extends CallsAsked {
  /** Opaque to this actor. */
  readonly text: string;
}
