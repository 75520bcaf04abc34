import type { DeliveryState } from "../tables/deliveries.ts";
import type { DurableRunRow } from "../tables/durable-rows.ts";
import type { RunRow } from "../tables/runs.ts";

/** What is told of a durable run, to whoever asks by its token and in the webhooks of its end (document 1, "Run record"). */
export interface RunRecord {
  readonly status: string;
  readonly fiber_id: string;
  readonly resume_token: string;
  /** ISO 8601. */
  readonly expires_at: string;
  readonly final: { readonly role: "assistant"; readonly content: string } | null;
  readonly error: string | null;
  readonly manifest_id: string;
  /** How far the webhooks of its end are, by endpoint; absent where it has none. */
  readonly webhooks?: Readonly<Record<string, DeliveryState>>;
}

/** The record of a run whose deliveries are known; of those that are not the run's end has not come, or has only just come. */
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

/** What the deliveries of a run's end are of. */
export function deliverySource(runId: string): string {
  return `run_${runId}`;
}
