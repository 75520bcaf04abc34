import { orderedId } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { Trigger } from "../../governance/settings/triggers.ts";
import { requestMs, type TenantStore } from "../../storage/store/store.ts";
import { claimKeyOp, idempotencyKey, keyScope, settleKeyOp } from "../../storage/tables/idempotency.ts";
import type { HttpContext } from "../context.ts";
import type { SignedDelivery } from "./signature.ts";

// Accepts each delivery once, by an idempotency key. The key is claimed and settled in the batch that accepts the delivery's run.

/** The identity of a delivery. */
export interface DeliveryKey {
  readonly scope: string;
  readonly fingerprint: string;
  /** Earliest time at which the key may expire: until then the same signed request could be replayed. */
  readonly until: number;
}

/** The answer to a delivery. */
export interface DeliveryAnswer {
  readonly status: number;
  readonly body: { readonly status: string; readonly run_id?: string };
}

/** Returns the key of a delivery, equal to the one that `askedKey` makes for its run. */
export function keyOf({ id }: Pick<Trigger, "id">, { key, digest, staleAt }: SignedDelivery): DeliveryKey {
  const sender = { scheme: "trigger", issuer: "", sub: `trigger:${id}` };
  return { scope: keyScope(["trigger"], sender, key), fingerprint: digest, until: staleAt ?? 0 };
}

/**
 * Returns the answer to an earlier delivery with this key; null if there was none. Refuses with delivery_id_reused and
 * delivery_in_progress.
 */
export async function earlierDelivery(
  store: TenantStore,
  { scope, fingerprint }: DeliveryKey,
  now: number,
): Promise<DeliveryAnswer | null> {
  const row = await idempotencyKey(store, scope, now);
  if (row === undefined) return null;
  if (row.fingerprint !== fingerprint) throw new SvcError("delivery_id_reused");
  if (row.state === "in_progress" || row.answer === null) throw new SvcError("delivery_in_progress");
  const { status, body } = JSON.parse(row.answer) as { status: number; body: string };
  const { status: said = "accepted", resume_token, run_id = resume_token } = JSON.parse(body) as Record<string, string>;
  return { status, body: { status: said, ...(run_id !== undefined && { run_id }) } };
}

/**
 * Stores the answer to a delivery that starts no turn of an agent. Refuses with delivery_in_progress if another thread is handling it.
 */
export async function rememberDelivery(
  store: TenantStore,
  { scope, fingerprint, until }: DeliveryKey,
  { status, body }: DeliveryAnswer,
  { env, settings }: Pick<HttpContext, "env" | "settings">,
  run_id: string = orderedId(env),
): Promise<void> {
  const now = env.now();
  const expires_at = Math.max(until, now + settings.idempotencyTtlSeconds * 1_000);
  const claim = claimKeyOp(store, { scope, fingerprint, owner: "", run_id, answer: null, expires_at }, now);
  const answer = JSON.stringify({ status, body: JSON.stringify(body) });
  try {
    await store.write([claim, settleKeyOp(store, scope, run_id, answer, expires_at)], requestMs);
  } catch (error) {
    if (SvcError.from(error).code !== "conflict") throw error;
    throw new SvcError("delivery_in_progress");
  }
}
