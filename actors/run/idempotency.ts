import { SvcError } from "../../bus/errors.ts";
import { answerOf } from "../../bus/frames/answer.ts";
import { errorFrame, frame } from "../../bus/frames/frames.ts";
import { failureText } from "../../bus/frames/native-stream.ts";
import type { RunResult } from "../../bus/frames/output.ts";
import type { SubmitTurn, TurnAccepted } from "../../bus/protocol/thread.ts";
import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import { claimKeyOp, idempotencyKey, releaseKeyOp, settleKeyOp } from "../../storage/tables/idempotency.ts";
import type { RunOutcome } from "./plan.ts";

// A request with an Idempotency-Key runs once. The key is claimed in the same batch that makes the caller's messages durable,
// so that either both are there or neither; it is settled in the batch that ends the run. A stream is answered again from the
// log, a JSON answer as it was (document 1, "Idempotency-Key").

/** What a stream's key remembers: which events of the log its request appended, and how it ended. */
export interface StreamAnswer {
  readonly from_seq: number;
  /** One past the last; -1 while the run is live. */
  readonly to_seq: number;
  /** The frame that the stream ended in, when it ended in an error. */
  readonly error: string | null;
}

/** What a JSON answer's key remembers. */
export interface JsonAnswer {
  readonly status: number;
  readonly body: string;
}

/** Under which name a key is kept: a stream's belongs to the thread as well, a JSON answer's to the caller alone. */
export function keyScope(turn: SubmitTurn, key: string): string {
  const { scheme, issuer, sub } = turn.principal;
  const place = turn.surface === "chat_stream" ? ["stream", turn.thread_suffix] : ["chat"];
  return JSON.stringify([...place, scheme, issuer, sub, key]);
}

/**
 * What an earlier request of the same key means for this one: null when there was none. Refuses with idempotency_key_reused and
 * idempotency_in_progress.
 */
export async function earlierAnswer(
  store: TenantStore,
  turn: SubmitTurn,
  now: number,
): Promise<{ run_id: string; answer: string } | null> {
  if (turn.idempotency === null) return null;
  const scope = keyScope(turn, turn.idempotency.key);
  const row = await idempotencyKey(store, scope, now);
  if (!row) return null;
  if (row.fingerprint !== turn.idempotency.fingerprint) throw new SvcError("idempotency_key_reused");
  if (row.state === "in_progress" || row.answer === null) throw new SvcError("idempotency_in_progress");
  return { run_id: row.run_id, answer: row.answer };
}

/** The stored answer of POST /chat. */
export function storedAnswer(answer: string): TurnAccepted {
  const { status, body } = JSON.parse(answer) as JsonAnswer;
  return { kind: "answer", status, body };
}

/** Claims the key for a run; part of the batch that accepts the turn. */
export function claimOps(
  store: TenantStore,
  turn: SubmitTurn,
  facts: { owner: string; now: number; ttlSeconds: number; fromSeq: number },
): WriteOp[] {
  if (turn.idempotency === null) return [];
  const provisional: StreamAnswer = { from_seq: facts.fromSeq, to_seq: -1, error: null };
  return [
    claimKeyOp(
      store,
      {
        scope: keyScope(turn, turn.idempotency.key),
        fingerprint: turn.idempotency.fingerprint,
        owner: facts.owner,
        run_id: turn.run_id,
        answer: JSON.stringify(provisional),
        expires_at: facts.now + facts.ttlSeconds * 1000,
      },
      facts.now,
    ),
  ];
}

/** Settles the key when the run has ended; part of the run's last batch. */
export function settleOps(
  store: TenantStore,
  turn: SubmitTurn,
  outcome: RunOutcome,
  seqs: { from: number; to: number },
): WriteOp[] {
  if (turn.idempotency === null) return [];
  const scope = keyScope(turn, turn.idempotency.key);
  if (turn.surface === "chat_stream") {
    const answer: StreamAnswer = { from_seq: seqs.from, to_seq: seqs.to, error: errorOf(outcome, turn.request_id) };
    return [settleKeyOp(store, scope, turn.run_id, JSON.stringify(answer))];
  }
  if (outcome.kind === "failed") return [releaseKeyOp(store, scope, turn.run_id)];
  const { status, body } = answerOf(outcome.result, false);
  // A failure may be tried again with the same key.
  if (status >= 500) return [releaseKeyOp(store, scope, turn.run_id)];
  return [settleKeyOp(store, scope, turn.run_id, JSON.stringify({ status, body } satisfies JsonAnswer))];
}

/** The frame that the stream has ended in, to the letter. */
function errorOf(outcome: RunOutcome, requestId: string): string | null {
  return outcome.kind === "failed" ? errorFrame(failureText(outcome.error, requestId)) : failureFrame(outcome.result);
}

function failureFrame(result: RunResult): string | null {
  return result.failure === null ? null : frame("on_error", { message: result.failure }, -1);
}

/** How the replay of a stream ends whose run was cut off by a crash. */
export const interruptedFrame = `event: error\ndata: {"error":{"message":"the run was interrupted","type":"stream_error"}}\n\n`;
