// The states of a quote: draft, sent, accepted, ordered. An accepted quote above the buyer's limit waits as pending_approval. A quote
// that is not accepted in time is expired.

/** The states. */
export const quoteStates = ["draft", "sent", "accepted", "pending_approval", "ordered", "expired"] as const;
/** The state of a quote. */
export type QuoteState = (typeof quoteStates)[number];

const moves: Readonly<Record<QuoteState, readonly QuoteState[]>> = {
  draft: ["sent"],
  sent: ["accepted", "pending_approval", "expired"],
  accepted: ["ordered", "pending_approval", "expired"],
  // A denied or expired request puts the quote back to sent.
  pending_approval: ["ordered", "sent", "expired"],
  ordered: [],
  expired: [],
};

/** True if a quote may go from one state to the other. */
export function mayMove(from: QuoteState, to: QuoteState): boolean {
  return moves[from].includes(to);
}

/** True if the quote's time is over, so that its prices no longer hold. An ordered quote stays ordered. */
export function isOver(
  { status, valid_until }: { status: QuoteState; valid_until: number | null },
  now: number,
): boolean {
  return mayMove(status, "expired") && valid_until !== null && valid_until <= now;
}
