import { answerOf, errorBody } from "../../../bus/frames/answer.ts";
import { errorFrame, frame } from "../../../bus/frames/frames.ts";
import { failureText } from "../../../bus/frames/native-stream.ts";
import type { RunOutput, RunResult } from "../../../bus/frames/output.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { claimKeyOp, neverExpires, releaseKeyOp, settleKeyOp } from "../../../storage/tables/idempotency.ts";
import type { JsonAnswer, RunAnswer, StreamAnswer } from "../../log/earlier-answer.ts";
import type { RunOutcome, RunSpec } from "../spec/run-spec.ts";

// The idempotency key of a turn. The first batch claims it; the last batch settles it with the answer of the entry point.

/**
 * Returns statements of the accepting batch that claim the key. `expiresAt` is for a run that stores nothing before its end. Null
 * for any other run, whose end sets the expiry.
 */
export function claimOps(
  store: TenantStore,
  { idempotency: key, run_id, fromSeq, startedAt }: Pick<RunSpec, "idempotency" | "run_id" | "fromSeq" | "startedAt">,
  owner: string,
  expiresAt: number | null,
): WriteOp[] {
  if (key === null) return [];
  const { scope, fingerprint } = key;
  const provisional: StreamAnswer = { from_seq: fromSeq, to_seq: -1, error: null };
  const answer = JSON.stringify(provisional);
  const expires_at = expiresAt ?? neverExpires;
  return [claimKeyOp(store, { scope, fingerprint, owner, run_id, answer, expires_at }, startedAt)];
}

/**
 * Returns statements of the last batch that settle the key. `endSeq` is the sequence number after the turn's last event.
 * `hasActed` is true if a call has started of a tool that may change something.
 */
export function settleOps(
  store: TenantStore,
  spec: RunSpec,
  outcome: RunOutcome,
  endSeq: number,
  {
    hasActed,
    output,
    expiresAt,
  }: { readonly hasActed: boolean; readonly output: RunOutput; readonly expiresAt: number },
): WriteOp[] {
  const { idempotency: key, run_id } = spec;
  if (key === null) return [];
  if (key.form === "frames") {
    const answer: StreamAnswer = { from_seq: spec.fromSeq, to_seq: endSeq, error: errorOf(outcome, spec.request_id) };
    return [settleKeyOp(store, key.scope, run_id, JSON.stringify(answer), expiresAt)];
  }
  const { status, body } = answerOfOutcome(outcome, spec.request_id, output);
  // After a failure the key may be used again, unless a repeated tool call could repeat an effect.
  if (status >= 500 && !hasActed) return [releaseKeyOp(store, key.scope, run_id)];
  const answer: JsonAnswer | RunAnswer = key.form === "run" ? { suffix: spec.thread_suffix ?? "" } : { status, body };
  return [settleKeyOp(store, key.scope, run_id, JSON.stringify(answer), expiresAt)];
}

/** Returns the answer for a client that waits for the end. If the client has disconnected, the key keeps the body of POST /chat. */
function answerOfOutcome(outcome: RunOutcome, requestId: string, { answers }: RunOutput): JsonAnswer {
  if (outcome.kind === "failed")
    return (
      answers?.failed(outcome.error) ?? { status: outcome.error.status, body: errorBody(outcome.error, requestId) }
    );
  return answers?.finished(outcome.result) ?? answerOf(outcome.result, false);
}

/** Returns the frame that ended the stream in an error, byte for byte; null for any other end. */
function errorOf(outcome: RunOutcome, requestId: string): string | null {
  return outcome.kind === "failed" ? errorFrame(failureText(outcome.error, requestId)) : failureFrame(outcome.result);
}

function failureFrame(result: RunResult): string | null {
  return result.failure === null ? null : frame("on_error", { message: result.failure }, -1);
}
