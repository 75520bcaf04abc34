import { durableAddress, publicThread, runAddress, splitRunKey } from "../../../bus/address.ts";
import type { Bus } from "../../../bus/bus.ts";
import { SvcError } from "../../../bus/errors.ts";
import { entryPointOf } from "../../../bus/frames/entry-points.ts";
import { splitNodeId } from "../../../bus/protocol/node-id.ts";
import type { AcceptedRun, RunPlace, SubmitTurn, TurnAccepted } from "../../../bus/protocol/run.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { durableQueueIsFull, durableRowById, isResting, wakeDurableOp } from "../../../storage/tables/durable-rows.ts";
import { neverExpires, settleKeyOp } from "../../../storage/tables/idempotency.ts";
import type { RunRow } from "../../../storage/tables/runs.ts";
import { type JsonAnswer, keyExpiresAt, type RunAnswer, type StreamAnswer } from "../../log/earlier-answer.ts";
import type { AnswerForm, AskedKey } from "../../log/messages.ts";
import type { ActorContext } from "../../runtime/define.ts";
import { durableOutput } from "../child-runs/durable-output.ts";
import type { RunDeps } from "../context/deps.ts";
import type { EventLogClient } from "../event-log/event-log-client.ts";
import { DurableRun } from "../spec/durable-run.ts";
import type { RunSpec, RunStart } from "../spec/run-spec.ts";
import type { PatternDeps } from "../steps/pattern.ts";
import { Run } from "./run.ts";

// How a durable run starts: acceptance writes its row. The run then starts when it gets a slot, in this process or in another one.

/** Refuses with run_queue_full if the tenant's queue of durable runs is full. */
export async function checkQueue(store: TenantStore): Promise<void> {
  if (await durableQueueIsFull(store)) throw new SvcError("run_queue_full", { retryAfterSeconds: 60 });
}

/** Returns the answer for an accepted run. `expiresAt` is epoch milliseconds. */
export function acceptedRun({ tenant_id, suffix, run_id }: RunPlace, expiresAt: number): AcceptedRun {
  return {
    status: "accepted",
    resume_token: run_id,
    fiber_id: run_id,
    expires_at: new Date(expiresAt).toISOString(),
    thread_id: publicThread(tenant_id, suffix),
  };
}

/** Returns statements that settle the key of a request with the acceptance of its run. That key expires a TTL after the run's end. */
export function settleAcceptedOps(
  store: TenantStore,
  key: AskedKey | null,
  run: AcceptedRun,
  { fromSeq, thread_suffix, surface, startedAt }: Pick<RunSpec, "fromSeq" | "thread_suffix" | "surface" | "startedAt">,
  settings: RunDeps["settings"],
): WriteOp[] {
  if (key === null) return [];
  const answers: Readonly<Record<AnswerForm, StreamAnswer | RunAnswer | JsonAnswer>> = {
    frames: { from_seq: fromSeq, to_seq: -1, error: null, accepted: run },
    run: { suffix: thread_suffix ?? "", accepted: run },
    body: { status: 202, body: JSON.stringify(run) },
  };
  const { keyOutlivesRun } = entryPointOf(surface);
  const expiresAt = keyOutlivesRun ? Math.max(key.until ?? 0, keyExpiresAt(startedAt, settings)) : neverExpires;
  return [settleKeyOp(store, key.scope, run.resume_token, JSON.stringify(answers[key.form]), expiresAt)];
}

/** Notifies the `durable` actor, which gives out the slots, that the store lists this run as due. */
export function tellDue(place: RunPlace, { bus, deps }: Pick<ActorContext<RunDeps>, "bus" | "deps">): void {
  const host = deps.settings.durablePollSeconds > 0 ? workHostOf(place, bus) : null;
  if (host !== null) bus.tell(durableAddress(host), "wake", place);
}

/** Returns the host on which a durable run works; null if no host is a worker. */
function workHostOf({ tenant_id, suffix, run_id }: RunPlace, bus: Bus): string | null {
  const node = bus.workNodeOf(runAddress(tenant_id, suffix, run_id));
  return node === null ? null : splitNodeId(node).host;
}

/** Notifies the `durable` actor that the run no longer needs its slot. */
export function tellLeft({ key, bus, deps }: Pick<ActorContext<RunDeps>, "key" | "bus" | "deps">): void {
  const { tenantId, suffix, runId } = splitRunKey(key);
  bus.tell(durableAddress(deps.host), "left", { tenant_id: tenantId, suffix: suffix ?? "", run_id: runId });
}

/** Returns the answer for a run that was accepted earlier. */
export async function acceptedBefore(
  { principal, thread_suffix, run_id }: SubmitTurn,
  store: TenantStore,
  wait_ms: number,
): Promise<TurnAccepted> {
  const row = await durableRowById(store, run_id);
  if (row === undefined) throw new SvcError("actor_lost");
  const place = { tenant_id: principal.tenant_id, suffix: thread_suffix ?? "", run_id };
  return { kind: "accepted", run: acceptedRun(place, row.expires_at), replayed: false, wait_ms };
}

/**
 * True if a run gets a slot now, so that it starts with its acceptance batch: a slot is free and no other run waits for one. A
 * background task never starts so: the batch must first join it to the budgets of other runs.
 */
export async function slotFor(
  place: RunPlace,
  { parent }: Pick<SubmitTurn, "parent">,
  { bus, deps }: Pick<ActorContext<RunDeps>, "bus" | "deps">,
): Promise<boolean> {
  // The parent run holds a slot and is idle while the task works.
  if (parent?.durable !== undefined) return true;
  if (parent !== undefined || deps.settings.durablePollSeconds === 0 || workHostOf(place, bus) !== deps.host)
    return false;
  const { go } = await bus.ask(durableAddress(deps.host), "begin", place).catch(() => ({ go: false }));
  return go;
}

/** Builds a durable run that starts with its acceptance. It is built like a resumed run, from its row, but reads nothing again. */
export function beginDurable(
  start: RunStart,
  row: RunRow,
  place: RunPlace,
  log: EventLogClient,
  { deps, bus }: ActorContext<PatternDeps>,
): Run {
  const { env, host, metrics, settings } = deps;
  const store = deps.store.tenant(place.tenant_id);
  const { started_at: accepted_at, asked } = row;
  const ttl_ms = asked.durable?.ttl_ms ?? 0;
  const stored = { attempts: 0, accepted_at, ttl_ms, expires_at: accepted_at + ttl_ms };
  const { parent } = asked;
  const durableRun = new DurableRun(row, place, stored, { store, bus, host, env, settings }, parent === undefined);
  log.follow(durableRun);
  metrics.observe("svc_durable_start_seconds", {}, Math.max(0, env.now() - accepted_at) / 1000);
  // The acceptance has settled the key.
  const spec = { ...start.spec, idempotency: null, response: asked.response ?? null };
  return new Run({ ...start, spec, durableRun }, log, durableOutput(spec, bus), deps);
}

/**
 * Asks the `durable` actor for a slot for a run that can resume. Without a worker it only marks the row as due. A run whose retry
 * is not due yet is left alone.
 */
export async function askForSlot(place: RunPlace, context: ActorContext<RunDeps>): Promise<void> {
  const { deps } = context;
  const store = deps.store.tenant(place.tenant_id);
  if (await isResting(store, place.run_id)) return;
  if (deps.settings.durablePollSeconds > 0) return tellDue(place, context);
  await store.write([wakeDurableOp(store, place.run_id)]);
}
