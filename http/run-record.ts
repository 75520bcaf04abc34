import type { RunStanding } from "../bus/frames/run-status.ts";
import { deliverySource, type RunRecord, runRecord } from "../storage/frames/run-record.ts";
import { waitingOn } from "../storage/frames/waiting-on.ts";
import type { TenantStore } from "../storage/store/store.ts";
import { type DeliveryState, deliveryStates } from "../storage/tables/deliveries.ts";
import { type FiberRow, fiberById } from "../storage/tables/fibers.ts";
import { type RunRow, runByKey } from "../storage/tables/runs.ts";
import { waitsOfRun } from "../storage/tables/waits.ts";

/** A durable run as it is stored. */
export interface DurableRun {
  readonly fiber: FiberRow;
  readonly run: RunRow;
  /** How far the webhooks of its end are, by endpoint. */
  readonly deliveries: Readonly<Record<string, DeliveryState>>;
}

/** The durable run of a token, if the tenant has it. */
export async function durableRun(store: TenantStore, token: string): Promise<DurableRun | null> {
  const before = await fiberById(store, token);
  const run = before && (await runByKey(store, before.run_key));
  if (!before || !run) return null;
  // Both rows end in one batch. It may have stood between the two readings: then the end would have no answer.
  const isTorn = run.ended_at !== null && before.ended_at === null;
  const fiber = (isTorn && (await fiberById(store, token))) || before;
  const deliveries = run.asked.durable?.webhooks ? await deliveryStates(store, deliverySource(token)) : {};
  return { fiber, run, deliveries };
}

/** What is told of it. */
export function recordOf({ fiber, run, deliveries }: DurableRun): RunRecord {
  return runRecord(run, fiber, deliveries);
}

/** Where it stands, as streams tell it. */
export async function standingOf(store: TenantStore, { fiber, run }: DurableRun): Promise<RunStanding> {
  const { run_id, attempts, wake_at, updated_at } = fiber;
  const step = run.spent?.step ?? 0;
  const told = { run_id, status: run.status, attempt: attempts, step, updated_at };
  if (run.status !== "waiting") return { ...told, waiting_on: null };
  if (wake_at !== null)
    return { ...told, waiting_on: attempts === 0 ? null : { kind: "retry", id: run_id, until: wake_at } };
  const open = (await waitsOfRun(store, run_id)).findLast(({ state }) => state === "open");
  return { ...told, waiting_on: open === undefined ? null : waitingOn(open) };
}
