import { SvcError } from "../../bus/errors.ts";
import { entryPointOf } from "../../bus/frames/entry-points.ts";
import type { AcceptedRun, SubmitTurn, TurnAccepted } from "../../bus/protocol/run.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { idempotencyKey, isLoggedScope, keyScope } from "../../storage/tables/idempotency.ts";
import type { AnswerForm, AskedKey } from "./messages.ts";

// A request with an Idempotency-Key runs once. The batch that persists the caller's messages also claims the key, and the batch
// that ends the run settles it. A repeated stream is replayed from the log; a repeated JSON request gets the stored reply
// (document 1, "Idempotency-Key").

/** The stored result of a stream's key: the range of its events in the log, and how it ended. */
export interface StreamAnswer {
  readonly from_seq: number;
  /** One past the last; -1 while the run is live. */
  readonly to_seq: number;
  /** The final frame of a stream that ended in an error. */
  readonly error: string | null;
  /** For a durable run only: a repeated request joins its stream. */
  readonly accepted?: AcceptedRun;
}

/** The stored result of a JSON request's key. */
export interface JsonAnswer {
  readonly status: number;
  readonly body: string;
}

/** The stored result of a key on /v1 for a turn with a log: the reply is read from the log. */
export interface RunAnswer {
  /** Suffix of the run's thread. */
  readonly suffix: string;
  /** Set for a durable run only, which may still be active. */
  readonly accepted?: AcceptedRun;
}

/** Returns the idempotency key of a turn; null without one. */
export function askedKey(turn: SubmitTurn): AskedKey | null {
  if (turn.idempotency === null) return null;
  const { key, ...once } = turn.idempotency;
  const { keyPlace } = entryPointOf(turn.surface);
  if (keyPlace === null) throw new Error(`requests of the entry point ${turn.surface} have no idempotency key`);
  const scope = keyScope(keyPlace(turn.thread_suffix), turn.principal, key);
  return { scope, ...once, form: formOf(scope, turn.thread_suffix) };
}

/** Returns the form in which a key of the scope stores its result. */
export function formOf(scope: string, suffix: string | null): AnswerForm {
  if (scope.startsWith('["stream"')) return "frames";
  return suffix !== null && isLoggedScope(scope) ? "run" : "body";
}

/**
 * Returns the result of an earlier request with the same key; null if there was none. Refuses with idempotency_key_reused or
 * idempotency_in_progress.
 */
export async function earlierAnswer(
  store: TenantStore,
  key: AskedKey | null,
  now: number,
): Promise<{ run_id: string; answer: string } | null> {
  if (key === null) return null;
  const row = await idempotencyKey(store, key.scope, now);
  if (!row) return null;
  if (row.fingerprint !== key.fingerprint) throw new SvcError("idempotency_key_reused");
  if (row.state === "in_progress" || row.answer === null) throw new SvcError("idempotency_in_progress");
  return { run_id: row.run_id, answer: row.answer };
}

/** Returns when the key of a run that ends at `endsAt` expires. */
export function keyExpiresAt(
  endsAt: number,
  { idempotencyTtlSeconds }: Pick<Settings, "idempotencyTtlSeconds">,
): number {
  return endsAt + idempotencyTtlSeconds * 1_000;
}

/** Returns the stored reply of a key that stores the body. */
export function storedAnswer(answer: string): TurnAccepted {
  const { status, body } = JSON.parse(answer) as JsonAnswer;
  return { kind: "answer", status, body };
}

/** Returns the stored reply of a key that stores the run. */
export function loggedAnswer({ run_id, answer }: { readonly run_id: string; readonly answer: string }): TurnAccepted {
  const { suffix, accepted } = JSON.parse(answer) as RunAnswer;
  if (accepted !== undefined) return { kind: "accepted", run: accepted, replayed: true };
  return { kind: "logged", run_id, suffix };
}

/** The last frame of a replayed stream whose run was interrupted by a crash. */
export const interruptedFrame = `event: error\ndata: {"error":{"message":"the run was interrupted","type":"stream_error"}}\n\n`;
