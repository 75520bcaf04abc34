import { SvcError } from "../../bus/errors.ts";
import type { AcceptedRun, SubmitTurn, TurnAccepted } from "../../bus/protocol/run.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { idempotencyKey, isLoggedScope, keyPlace, keyScope } from "../../storage/tables/idempotency.ts";
import type { AnswerForm, AskedKey } from "./messages.ts";

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
  /** Of a durable run only: its stream is joined again. */
  readonly accepted?: AcceptedRun;
}

/** What a JSON answer's key remembers. */
export interface JsonAnswer {
  readonly status: number;
  readonly body: string;
}

/** What the key of a turn on /v1 remembers where the turn has a log: the answer is read from there. */
export interface RunAnswer {
  /** The suffix of the run's thread. */
  readonly suffix: string;
  /** Set for a durable run only, which may still be at work. */
  readonly accepted?: AcceptedRun;
}

/** The key of a turn, null without one. */
export function askedKey(turn: SubmitTurn): AskedKey | null {
  if (turn.idempotency === null) return null;
  const { key, ...once } = turn.idempotency;
  const scope = keyScope(keyPlace(turn.surface, turn.thread_suffix), turn.principal, key);
  return { scope, ...once, form: formOf(scope, turn.thread_suffix) };
}

/** In which form the key of a scope keeps its answer. */
export function formOf(scope: string, suffix: string | null): AnswerForm {
  if (scope.startsWith('["stream"')) return "frames";
  return suffix !== null && isLoggedScope(scope) ? "run" : "body";
}

/**
 * What an earlier request of the same key means for this one: null when there was none. Refuses with idempotency_key_reused and
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

/** When the key of a run that ends at `endsAt` is forgotten. */
export function keyExpiresAt(
  endsAt: number,
  { idempotencyTtlSeconds }: Pick<Settings, "idempotencyTtlSeconds">,
): number {
  return endsAt + idempotencyTtlSeconds * 1_000;
}

/** The stored answer of a key that keeps the body. */
export function storedAnswer(answer: string): TurnAccepted {
  const { status, body } = JSON.parse(answer) as JsonAnswer;
  return { kind: "answer", status, body };
}

/** The stored answer of a key that keeps the run. */
export function loggedAnswer({ run_id, answer }: { readonly run_id: string; readonly answer: string }): TurnAccepted {
  const { suffix, accepted } = JSON.parse(answer) as RunAnswer;
  if (accepted !== undefined) return { kind: "accepted", run: accepted, replayed: true };
  return { kind: "logged", run_id, suffix };
}

/** How the replay of a stream ends whose run was cut off by a crash. */
export const interruptedFrame = `event: error\ndata: {"error":{"message":"the run was interrupted","type":"stream_error"}}\n\n`;
