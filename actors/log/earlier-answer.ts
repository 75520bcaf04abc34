import { SvcError } from "../../bus/errors.ts";
import type { AcceptedRun, SubmitTurn, TurnAccepted } from "../../bus/protocol/run.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { idempotencyKey, keyScope } from "../../storage/tables/idempotency.ts";
import type { AskedKey } from "./messages.ts";

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

/** The key of a turn, null without one. A stream's belongs to the thread as well, a JSON answer's to the caller alone. */
export function askedKey(turn: SubmitTurn): AskedKey | null {
  if (turn.idempotency === null) return null;
  const stream = turn.surface === "chat_stream";
  const place = stream ? ["stream", turn.thread_suffix] : [turn.surface === "trigger" ? "trigger" : "chat"];
  const { key, ...once } = turn.idempotency;
  return { scope: keyScope(place, turn.principal, key), ...once, stream };
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

/** The stored answer of POST /chat. */
export function storedAnswer(answer: string): TurnAccepted {
  const { status, body } = JSON.parse(answer) as JsonAnswer;
  return { kind: "answer", status, body };
}

/** How the replay of a stream ends whose run was cut off by a crash. */
export const interruptedFrame = `event: error\ndata: {"error":{"message":"the run was interrupted","type":"stream_error"}}\n\n`;
