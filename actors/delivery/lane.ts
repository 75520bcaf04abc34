import type { Env } from "../../bus/env.ts";
import type { OpenSpan } from "../../governance/tracing/tracer.ts";
import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import type { DeliveryRow } from "../../storage/tables/deliveries.ts";
import type { AttemptFailure } from "./attempt.ts";
import type { DeliveryDeps } from "./deps.ts";

/** How the deliveries of one endpoint are sent. */
export interface Lane {
  /** The endpoint in metrics and spans: few values, and no text of a tenant. */
  readonly label: string;
  /** The word for a delivery in log lines. */
  readonly noun: string;
  /** Max time of an attempt. */
  readonly timeoutMs: number;
  /** Max attempts; absent for SVC_WEBHOOK_MAX_ATTEMPTS. */
  readonly attemptsMax?: number;
  /** Instructions for the operator about failures that no retry resolves, by reason. */
  readonly cures: Readonly<Record<string, string>>;
  /** Sends a delivery once. Rejects only for a store that does not answer; then the delivery is sent again after its claim. */
  attempt(row: DeliveryRow, span: OpenSpan | null): Promise<Attempted>;
}

/** The services of a lane. */
export interface LaneContext {
  readonly env: Env;
  readonly deps: DeliveryDeps;
  readonly store: TenantStore;
}

/** The outcome of an attempt. */
export interface Attempted {
  /** Null if there is nothing more to send. */
  readonly failure: AttemptFailure | null;
  /** True if no later attempt may follow a failure. */
  readonly isFinal?: boolean;
  /** Shortest pause after a failure, in milliseconds; absent for that of webhooks. */
  readonly pauseMs?: number;
  /** Written in the batch of the outcome. */
  readonly ops?: readonly WriteOp[];
  /** Endpoints for which that batch has deliveries. */
  readonly wakes?: readonly string[];
  /** Resolves when the connection has ended. */
  readonly over?: Promise<void>;
}
