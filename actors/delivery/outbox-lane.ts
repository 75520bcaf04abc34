import { longestBackOffMs } from "../../storage/tables/back-off.ts";
import type { DeliveryRow } from "../../storage/tables/deliveries.ts";
import type { Attempted, Lane, LaneContext } from "./lane.ts";
import { type OutboxAttempt, type OutboxKind, splitOutboxEndpoint } from "./outbox-kind.ts";

/** Returns the lane of a kind of a plugin; null if no loaded plugin has the kind. */
export function outboxLane(context: LaneContext, endpointId: string): Lane | null {
  const { kind, lane } = splitOutboxEndpoint(endpointId);
  const outbox = context.deps.outboxKinds.get(kind);
  if (outbox === undefined) return null;
  const { timeoutMs, attemptsMax } = outbox;
  return {
    ...{ label: kind, noun: kind, timeoutMs, attemptsMax, cures: {} },
    attempt: (row) => attempt(context, outbox, lane, row),
  };
}

/** Doublings of the pause that are enough for the longest one. */
const doublingsMax = 20;

async function attempt(
  { env, store }: LaneContext,
  outbox: OutboxKind,
  lane: string,
  row: DeliveryRow,
): Promise<Attempted> {
  const { id, type, body, attempts } = row;
  const { promise: late, resolve } = Promise.withResolvers<OutboxAttempt>();
  const timer = env.timer(outbox.timeoutMs, () => resolve({ outcome: "failed", reason: "timeout" }));
  const sending = outbox.send({ id, tenant_id: store.tenantId, lane, type, body, attempts });
  const attempted = await Promise.race([sending, late]);
  timer.cancel();
  if (attempted.outcome === "sent") return { failure: null, ops: attempted.ops ?? [] };
  const { reason } = attempted;
  if (attempted.outcome === "dead")
    return { failure: { reason, retryAfterMs: null }, isFinal: true, ops: attempted.ops ?? [] };
  const pauseMs = Math.min(outbox.pauseMs * 2 ** Math.min(attempts, doublingsMax), longestBackOffMs);
  return { failure: { reason, retryAfterMs: attempted.retryAfterMs ?? null }, pauseMs };
}
