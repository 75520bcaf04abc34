/**
 * What models want back with the calls that clients without a thread were handed. It is in the memory of one process, and may be forgotten.
 * A call's id is known to its tenant alone.
 */
export interface RecallMessages {
  /** Keeps what one step has thought, for each of its calls. */
  keep: { body: ThoughtsOfCalls };
  /** What is kept for these calls, in their order; null for what is not. */
  recall: { body: CallsAsked; reply: { readonly found: readonly (string | null)[] } };
}

interface CallsAsked {
  readonly tenant_id: string;
  readonly call_ids: readonly string[];
}

interface ThoughtsOfCalls extends CallsAsked {
  /** Whatever its keeper reads again. */
  readonly text: string;
}
