import type { DeliveryState } from "../tables/deliveries.ts";
import type { DurableRunRow } from "../tables/durable-rows.ts";
import type { RunRow } from "../tables/runs.ts";

/**
 * The public record of a durable run, returned for its resume token and sent in the webhooks of its end (document 1,
 * "Run record").
 */
export interface RunRecord {
  readonly status: string;
  readonly fiber_id: string;
  readonly resume_token: string;
  /** ISO 8601. */
  readonly expires_at: string;
  readonly final: { readonly role: "assistant"; readonly content: string } | null;
  readonly error: string | null;
  readonly manifest_id: string;
  /** State of the webhooks that report the run's end, by endpoint; absent if the run has none. */
  readonly webhooks?: Readonly<Record<string, DeliveryState>>;
}

/**
 * Builds the record of a run. A webhook without a known delivery counts as pending: the run has not ended, or ended a
 * moment ago.
 */
export function runRecord(
  { status, manifest, asked }: Pick<RunRow, "status" | "manifest" | "asked">,
  { run_id, expires_at, final, error }: Pick<DurableRunRow, "run_id" | "expires_at" | "final" | "error">,
  deliveries: Readonly<Record<string, DeliveryState>>,
): RunRecord {
  const endpoints = asked.durable?.webhooks;
  return {
    status,
    fiber_id: run_id,
    resume_token: run_id,
    expires_at: new Date(expires_at).toISOString(),
    final: final === null ? null : { role: "assistant", content: final },
    error,
    manifest_id: manifest,
    ...(endpoints && { webhooks: Object.fromEntries(endpoints.map((id) => [id, deliveries[id] ?? "pending"])) }),
  };
}

/** Returns the `source` under which the deliveries of a run's end are stored. */
export function deliverySource(runId: string): string {
  return `run_${runId}`;
}
