import type { AbortReason, SubmitTurn, TurnAccepted } from "./thread.ts";

/** A turn without a thread: nothing is kept of it but audit and usage. */
export interface TurnMessages {
  submit: { body: SubmitTurn; reply: TurnAccepted };
  abort: { body: { reason: AbortReason } };
}
