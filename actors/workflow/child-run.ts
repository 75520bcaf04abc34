import { runAddress, workflowSuffix } from "../../bus/address.ts";
import type { SingleCall } from "../../bus/protocol/single-call.ts";
import { unheardTurn } from "../../bus/protocol/unheard-turn.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { type DurableRunRow, durableRowById } from "../../storage/tables/durable-rows.ts";
import { type LogEvent, readEvents } from "../../storage/tables/events.ts";
import { type RunRow, runByKey } from "../../storage/tables/runs.ts";
import { type KindServices, type Looked, nextLook, type Outcome, type StepKind, type Unit } from "./step-kind.ts";

// The durable run that works for a step: an agent with a prompt, or one call of a tool. Its id is derived from the try, so a repeated start
// finds the run that exists.

/** Max events of a run that are read for its messages. */
const eventsReadMax = 2_000;

/** What the run of a step does. */
export type ChildWork =
  | { readonly manifest: string; readonly text: string }
  | { readonly manifest: string; readonly call: SingleCall };

/** Returns the outcome of a run that has ended without an error. */
type ReadOutcome = (unit: Unit, services: KindServices, ended: EndedChild) => Promise<Outcome>;

interface EndedChild {
  readonly durable: DurableRunRow;
  readonly row: RunRow | undefined;
}

/** Returns how a kind works whose steps are durable runs. */
export function worksAsRun(
  workOf: (unit: Unit) => ChildWork,
  readOutcome: ReadOutcome,
): Required<Pick<StepKind, "begin" | "started" | "look" | "cancel">> {
  return {
    begin: ({ id, started_at }, { env }) => ({
      kind: "pending",
      status: "running",
      due_at: nextLook(env.now(), started_at),
      child_run_id: id,
    }),
    started: (unit, services) => startChild(unit, workOf(unit), services),
    async look(unit, services) {
      const looked = await lookAtChild(unit, services, readOutcome);
      if (looked !== null) return looked;
      // The start was lost.
      await startChild(unit, workOf(unit), services);
      return { kind: "pending", status: "running", due_at: nextLook(services.env.now(), unit.started_at) };
    },
    cancel: abortChild,
  };
}

/** Starts the run of a step. Safe to repeat. Refuses as the start of a turn does. */
async function startChild(unit: Unit, work: ChildWork, { bus }: KindServices): Promise<void> {
  const { run_id, step_id, item, taint, principal, id, shared } = unit;
  const suffix = workflowSuffix(run_id, step_id, item);
  const turn = unheardTurn(
    {
      run_id: id,
      surface: "call" in work ? "workflow_call" : "workflow",
      principal,
      request_id: id,
      manifest: work.manifest,
      text: "text" in work ? work.text : "",
      thread_suffix: suffix,
      workflow: { run_id, step_id, item, taint, ...(shared !== null && { shared }) },
      ...("call" in work && { call: work.call }),
    },
    bus.node,
  );
  await bus.ask(runAddress(principal.tenant_id, suffix, id), "start", turn);
}

/** Aborts the run of a step, if there is one. */
async function abortChild(unit: Unit, { bus, store }: KindServices): Promise<void> {
  const { run_id, step_id, item, principal, id } = unit;
  const durable = await durableRowById(store, id);
  if (durable === undefined || durable.ended_at !== null) return;
  const address = runAddress(principal.tenant_id, workflowSuffix(run_id, step_id, item), id);
  await bus.ask(address, "abort", { reason: "client" });
}

/** Reads how far the run of a step is; null if there is none. */
async function lookAtChild(unit: Unit, services: KindServices, readOutcome: ReadOutcome): Promise<Looked | null> {
  const { store, env } = services;
  const durable = await durableRowById(store, unit.id);
  if (durable === undefined) return null;
  const row = await runByKey(store, durable.run_key);
  if (durable.ended_at === null) {
    const status = row?.status === "waiting" ? "waiting" : "running";
    return { kind: "pending", status, due_at: nextLook(env.now(), durable.accepted_at) };
  }
  const cost_usd = row?.result?.usage?.cost.total ?? 0;
  const breach = row?.result?.workflow_breach;
  if (breach !== undefined)
    return { kind: "failed", error: `budget_exceeded: ${breach}`, mayRetry: false, isOverBudget: true, cost_usd };
  if (durable.error !== null) {
    const mayRetry = row !== undefined && !(await hasActed(store, row));
    return { kind: "failed", error: durable.error, mayRetry, cost_usd };
  }
  return { ...(await readOutcome(unit, services, { durable, row })), cost_usd };
}

/**
 * True if a call has begun that may have changed something. The row lacks a call that was interrupted by the end of its process, but the
 * log has its intent. A run with more events than are read counts too.
 */
export async function hasActed(store: TenantStore, row: RunRow): Promise<boolean> {
  if (row.result?.acted === true || row.spent?.acted === true) return true;
  if (row.last_seq === null) return row.spent !== null;
  if (row.last_seq - (row.first_seq ?? 0) >= eventsReadMax) return true;
  for await (const { kind, extra } of eventsOf(store, row))
    if (kind === "tool_call" && extra?.metadata?.handed === undefined && extra?.metadata?.effect !== "read")
      return true;
  return false;
}

/** Returns the milliseconds that the run of a step has worked, without its waits. */
export async function workedMs(unit: Unit, { store, env }: KindServices): Promise<number> {
  const durable = await durableRowById(store, unit.id);
  if (durable === undefined) return 0;
  const row = await runByKey(store, durable.run_key);
  const before = row?.spent?.active_ms ?? 0;
  return row?.status === "running" ? before + Math.max(0, env.now() - durable.updated_at) : before;
}

/** Yields the events of a run, in order. */
export async function* eventsOf(store: TenantStore, row: RunRow | undefined): AsyncGenerator<LogEvent, void, void> {
  const { thread_key = null, first_seq, last_seq } = row ?? {};
  const end = Math.min((last_seq ?? -1) + 1, (first_seq ?? 0) + eventsReadMax);
  for (let seq = first_seq ?? 0; thread_key !== null && seq < end; ) {
    const page = await readEvents(store, thread_key, seq, end);
    yield* page;
    const newest = page.at(-1);
    if (newest === undefined) return;
    seq = newest.seq + 1;
  }
}
