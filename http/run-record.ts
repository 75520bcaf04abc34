import type { RunStanding } from "../bus/frames/run-status.ts";
import { deliverySource, type RunRecord, runRecord } from "../storage/frames/run-record.ts";
import { waitingOn } from "../storage/frames/waiting-on.ts";
import type { TenantStore } from "../storage/store/store.ts";
import { type DeliveryState, deliveryStates } from "../storage/tables/deliveries.ts";
import { durableRunById, type StoredDurableRun } from "../storage/tables/durable-runs.ts";
import { waitsOfRun } from "../storage/tables/waits.ts";
import { workflowRunById } from "../storage/tables/workflow-runs.ts";

/** A stored durable run. */
export interface DurableRun extends StoredDurableRun {
  /** State of the webhook deliveries about its end, by endpoint. */
  readonly deliveries: Readonly<Record<string, DeliveryState>>;
}

/** Returns the durable run of a token, null if the tenant has none. */
export async function durableRun(store: TenantStore, token: string): Promise<DurableRun | null> {
  const found = await durableRunById(store, token);
  if (found === undefined) return null;
  const hasWebhooks = found.run.asked.durable?.webhooks !== undefined;
  return { ...found, deliveries: hasWebhooks ? await deliveryStates(store, deliverySource(token)) : {} };
}

/** Returns the record of the run for clients. */
export function recordOf({ durable, run, deliveries }: DurableRun): RunRecord {
  return runRecord(run, durable, deliveries);
}

/** Max age of a run of a workflow. */
const workflowMsMax = 60 * 86_400_000;

/**
 * Returns the record of a run of a workflow in the form of durable runs (decision 267): its final message is the JSON of its outputs. Null
 * if the tenant has none of this id.
 */
export async function workflowRecord(store: TenantStore, id: string): Promise<RunRecord | null> {
  const run = /^[0-9a-f]{32}$/.test(id) ? await workflowRunById(store, id) : undefined;
  if (run === undefined) return null;
  const { status, outputs, error, ts } = run;
  return {
    status: workflowStatus[status],
    fiber_id: id,
    resume_token: id,
    expires_at: new Date(ts + workflowMsMax).toISOString(),
    final: outputs === null ? null : { role: "assistant", content: outputs },
    error: status === "cancelled" ? "cancelled" : error,
    manifest_id: "",
  };
}

const workflowStatus = {
  ...{ queued: "accepted", running: "running", waiting: "waiting", cancelling: "running" },
  ...{ cancelled: "failed", succeeded: "completed", failed: "failed" },
} as const;

/** Returns the current status of the run for streams. */
export async function standingOf(store: TenantStore, { durable, run }: DurableRun): Promise<RunStanding> {
  const { run_id, attempts, lost, wake_at, updated_at, held } = durable;
  const step = run.spent?.step ?? 0;
  const told = { run_id, status: run.status, attempt: attempts, step, updated_at };
  if (run.status !== "waiting") return { ...told, waiting_on: null };
  if (held === 1) return { ...told, waiting_on: { kind: "release", id: run_id, until: null } };
  if (wake_at !== null)
    return { ...told, waiting_on: attempts === 0 && lost === 0 ? null : { kind: "retry", id: run_id, until: wake_at } };
  const open = (await waitsOfRun(store, run_id)).findLast(({ state }) => state === "open");
  return { ...told, waiting_on: open === undefined ? null : waitingOn(open) };
}
