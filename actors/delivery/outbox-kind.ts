import type { WriteOp } from "../../storage/store/store.ts";

// Deliveries that a plugin sends. Their endpoint ids name the kind and the lane; those of webhooks have no colon.

/** How the deliveries of one kind are sent. */
export interface OutboxKind {
  /** Max attempts, after which a delivery is given up. */
  readonly attemptsMax: number;
  /** Max time of an attempt. */
  readonly timeoutMs: number;
  /** Pause after the first failure; it doubles with each further one. */
  readonly pauseMs: number;
  /** Sends a delivery. Never rejects. */
  send(delivery: OutboxDelivery): Promise<OutboxAttempt>;
}

/** A row of the outbox. */
export interface OutboxDelivery {
  readonly id: string;
  readonly tenant_id: string;
  readonly lane: string;
  readonly type: string;
  readonly body: string;
  /** Attempts before this one. */
  readonly attempts: number;
}

/**
 * The outcome of an attempt: `sent`; `failed`, to be repeated; or `dead`, never to be repeated. `ops` are written in the batch of the
 * outcome. The reason is for logs, and contains no text of others.
 */
export type OutboxAttempt =
  | { readonly outcome: "sent"; readonly ops?: readonly WriteOp[] }
  | { readonly outcome: "failed"; readonly reason: string; readonly retryAfterMs?: number }
  | { readonly outcome: "dead"; readonly reason: string; readonly ops?: readonly WriteOp[] };

const prefix = "plugin:";

/** Returns the endpoint id of a lane of a plugin's kind. */
export function outboxEndpoint(kind: string, lane: string): string {
  return `${prefix}${kind}:${lane}`;
}

/** True if an endpoint id is that of a plugin's kind. */
export function isOutboxEndpoint(endpointId: string): boolean {
  return endpointId.startsWith(prefix);
}

/** Returns the kind and the lane in the endpoint id of a plugin's kind. */
export function splitOutboxEndpoint(endpointId: string): { kind: string; lane: string } {
  const [kind = "", ...lane] = endpointId.slice(prefix.length).split(":");
  return { kind, lane: lane.join(":") };
}
