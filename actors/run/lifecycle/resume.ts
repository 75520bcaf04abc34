import { publicThread, runAddress, threadAddress } from "../../../bus/address.ts";
import { SvcError } from "../../../bus/errors.ts";
import { frame } from "../../../bus/frames/frames.ts";
import type { RunOutput } from "../../../bus/frames/output.ts";
import { statusFrame } from "../../../bus/frames/run-status.ts";
import { tellNews } from "../../../bus/protocol/news.ts";
import type { AbortReason, RunPlace } from "../../../bus/protocol/run.ts";
import { refreshAccess } from "../../../governance/auth/fresh-access.ts";
import { isRevoked } from "../../../governance/auth/revoked.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { endTasksOps } from "../../../storage/tables/abandoned-waits.ts";
import { abandonOps } from "../../../storage/tables/approvals.ts";
import { type DurableRunRow, durableRowById, whetherStopped } from "../../../storage/tables/durable-rows.ts";
import { eventsMax } from "../../../storage/tables/events.ts";
import type { RunSpent } from "../../../storage/tables/run-columns.ts";
import type { RunRow } from "../../../storage/tables/runs.ts";
import { isTaskOf, tasksAside } from "../../../storage/tables/task-waits.ts";
import { closeWaitsOp, expireWaitsOp, noThread, type WaitRow, waitsOfRun } from "../../../storage/tables/waits.ts";
import { interruptedEntry } from "../../log/entry.ts";
import { lostMax } from "../../log/lost-steps.ts";
import type { TakenRun } from "../../log/messages.ts";
import { closeSubAgentCalls } from "../../log/open-calls.ts";
import type { ContextRoom } from "../../runtime/context-memory.ts";
import type { ActorContext } from "../../runtime/define.ts";
import { isThere } from "../billing/parent-run.ts";
import { isOverload, isPassing } from "../billing/passing.ts";
import { durableOutput, tellEvaluation, tellWorkflow } from "../child-runs/durable-output.ts";
import { refusedTask } from "../child-runs/parent-report.ts";
import { EventLogClient } from "../event-log/event-log-client.ts";
import { DurableRun } from "../spec/durable-run.ts";
import type { RunSpec } from "../spec/run-spec.ts";
import type { PatternDeps } from "../steps/pattern.ts";
import { resumedSpec } from "./resumed-spec.ts";
import { Run } from "./run.ts";

// A suspended run resumes at the step that its log shows, in any process. Its run spec is built from the run row, its messages
// from the log, and its open questions from the wait rows.

/**
 * Why a run is resumed. `due`: the deadline of a wait may be over. `slot`: the durable run has got a slot. `stop`: the run is to
 * end as soon as it has resumed. `task`: the child task with this id is working again.
 */
export interface WhyResume {
  readonly due: boolean;
  readonly slot: boolean;
  readonly stop: AbortReason | null;
  readonly task: string | null;
}

/** Max milliseconds that a resumed run waits for memory. No client waits for its acceptance. */
const roomMs = 60_000;

/** A resumed run with its log, its spec and its memory. */
export interface ResumedRun {
  /** Memory that is reserved for the run. */
  readonly room: ContextRoom;
  readonly run: Run;
  readonly log: EventLogClient;
  readonly spec: RunSpec;
}

/**
 * Resumes a run. Returns `needs_slot` for a durable run without a slot. Returns null if the run is not suspended, has ended, or
 * has no answered wait.
 */
export async function resumeRun(
  place: RunPlace,
  output: RunOutput | null,
  { due, slot, stop, task }: WhyResume,
  { deps, bus }: ActorContext<PatternDeps>,
): Promise<ResumedRun | "needs_slot" | null> {
  const { tenant_id, suffix, run_id } = place;
  const store = deps.store.tenant(tenant_id);
  const stopped = slot ? await whetherStopped(store, run_id) : null;
  // The request that stops the run also ends it.
  if (stopped === "held" && stop === null) return null;
  const isOver = stopped === "expired";
  const waits = await waitsAtResume(store, run_id, due && !isOver);
  // A hint may arrive late, after its wait was handled by another resume.
  const isAwaited = waits.some(({ state, asked_as }) => state === "open" && asked_as === task);
  const isBack = task !== null && (isAwaited || (await isTaskOf(store, task, run_id)));
  if (task !== null && !isBack) return null;
  if (stop === null && !slot && !isBack && waits.every(({ state }) => state === "open")) return null;
  const log = new EventLogClient(bus, threadAddress(tenant_id, suffix), run_id, deps.env);
  // A parent run is idle while it lends budget to a task, and needs no slot for that.
  const taken = await log.take(deps.owner, slot || stop !== null || isBack);
  if (taken.kind === "needs_slot") return "needs_slot";
  if (taken.kind !== "taken") return null;
  let durableRun: DurableRun | null = null;
  const room = deps.contexts.room(tenant_id);
  try {
    if (taken.run.asked.durable !== undefined) {
      const stored = await durableRowById(store, run_id);
      if (stored === undefined) throw new SvcError("run_not_found");
      // Both times are the store's, unless the clock of the accepting host was ahead.
      if (taken.run.status === "accepted")
        deps.metrics.observe(
          "svc_durable_start_seconds",
          {},
          Math.max(0, (stored.begun_at ?? 0) - stored.accepted_at) / 1000,
        );
      const own = new DurableRun(taken.run, place, stored, { ...deps, store, bus }, slot);
      await refreshAccess({ ...taken.run.asked.principal, tenant_id: place.tenant_id }, deps, deps.env.now());
      const end = stop === null ? endOf(taken.run, place, stored, isOver, deps) : null;
      if (end !== null) return await endDurable(log, end, own, taken, store, { deps, bus });
      durableRun = own;
      log.follow(durableRun);
    }
    if (stop === null) {
      await deps.freezes.pending;
      deps.freezes.refuseRun(tenant_id, taken.run.asked.principal.sub, taken.run.manifest);
    }
    const makeRoom = (bytes: number) => room.ask(bytes, roomMs);
    const start = await resumedSpec(
      taken.run,
      taken.thread,
      waits,
      place,
      durableRun,
      { store, makeRoom, isEnding: stop !== null },
      deps,
    );
    const { spec } = start;
    const isOrphan = spec.parent !== null && !(await isThere(spec.parent, store, bus));
    const reports = output ?? durableOutput(spec, bus);
    const run = new Run(start, log, reports, deps);
    if (isBack) run.taskFamily?.expect(task);
    if (stop !== null) run.abort(stop);
    else if (isOrphan) run.abort("worker_lost");
    return { run, log, spec, room };
  } catch (error) {
    room.leave();
    const refusal = SvcError.from(error);
    const { code } = refusal;
    // The answer is stored, so suspending again loses nothing: the run resumes like one whose hint was lost.
    if (isOverload(code) && (durableRun !== null || stop === null)) {
      const { spent } = taken.run;
      const suspended =
        durableRun === null
          ? log.suspend(spent ?? unspent, [])
          : restUnready(log, refusal, durableRun, taken.run, deps);
      await suspended.catch(() => log.release());
      if (stop !== null) throw error;
      return null;
    }
    if (durableRun === null || code === "internal_error" || isPassing(code)) {
      log.release();
      throw error;
    }
    const context = { deps, bus };
    const end = endBy(refusal, stop, durableRun, deps);
    const written = end
      ? endDurable(log, end, durableRun, taken, store, context)
      : restUnready(log, refusal, durableRun, taken.run, deps);
    await written.catch(() => log.release());
    return null;
  }
}

/** Returns the waits of the run. `mayBeDue` first expires waits whose deadline is over, if any has a deadline. */
async function waitsAtResume(store: TenantStore, run_id: string, mayBeDue: boolean): Promise<WaitRow[]> {
  const waits = await waitsOfRun(store, run_id);
  // The clock of the store decides. A run that has no wait with a deadline needs no write.
  if (!mayBeDue || waits.every(({ state, deadline }) => state !== "open" || deadline === null)) return waits;
  await store.write([expireWaitsOp(store, run_id)]);
  return waitsOfRun(store, run_id);
}

type Taken = Extract<TakenRun, { readonly kind: "taken" }>;

interface EndedDurable {
  readonly status: "failed" | "expired" | "dead";
  readonly error: string;
}

/** Returns the reason for which a durable run must end instead of resuming; null if it may resume. */
function endOf(
  row: RunRow,
  place: RunPlace,
  { lost }: DurableRunRow,
  isOver: boolean,
  deps: PatternDeps,
): EndedDurable | null {
  if (isOver) return { status: "expired", error: "run_expired" };
  if (lost >= lostMax) return { status: "dead", error: `step_lost: its process has ended ${lost} times in one step` };
  if (isRevoked({ ...row.asked.principal, tenant_id: place.tenant_id }, deps, deps.env.now()))
    return { status: "failed", error: "principal_revoked" };
  return null;
}

/** Refusals that no later attempt can lift: the principal may not run the agent, or the log of the thread is too large. */
const refusesForGood: readonly SvcError["code"][] = [
  "unauthorized",
  "auth_scheme_not_allowed",
  "missing_scopes",
  "thread_too_large",
];

/** Returns how a refusal ends a resumed run. Null for a failed attempt: a model, plugin, tool or secret may be available later. */
function endBy(
  { code }: SvcError,
  stop: AbortReason | null,
  { attempts }: DurableRun,
  deps: PatternDeps,
): EndedDurable | null {
  if (stop !== null) return { status: "failed", error: "aborted" };
  if (refusesForGood.includes(code)) return { status: "failed", error: code };
  return attempts + 1 < deps.settings.durableMaxAttempts ? null : { status: "dead", error: code };
}

/** Suspends a durable run again that cannot resume: with the settings of this process, or for lack of memory, which is no failure. */
async function restUnready(
  log: EventLogClient,
  refusal: SvcError,
  durableRun: DurableRun,
  row: RunRow,
  { env, bus, log: logger }: PatternDeps,
): Promise<null> {
  const { run_id } = durableRun.place;
  const spent = row.spent ?? row.asked.requeued?.spent ?? unspent;
  const until = env.now() + durableRun.backOffMs;
  const isFailed = !isOverload(refusal.code);
  await log.suspend(spent, durableRun.putOffOps(isFailed));
  const why = isFailed ? "with these settings" : "for lack of memory";
  if (refusal.code !== "frozen")
    logger.warn(
      { run_id, manifest: row.manifest, code: refusal.code, until },
      `a durable run cannot be resumed ${why} and will be retried: ${refusal.message}`,
    );
  if (isFailed) log.publish(() => frame("on_error", { message: refusal.code }, -1));
  const waiting_on = { kind: "retry", id: run_id, until } as const;
  const attempt = durableRun.attempts + (isFailed ? 1 : 0);
  const standing = { status: "waiting", attempt, step: spent.step ?? 0, waiting_on } as const;
  log.publish(() => statusFrame({ run_id, ...standing, updated_at: env.now() }));
  tellStatus(bus, durableRun, row, "waiting", "retry");
  return null;
}

const unspent: RunSpent = { tool_calls: 0, input_tokens: 0, output_tokens: 0, cost_usd: 0, usage: null };

/**
 * Ends a durable run that cannot resume. The waiting calls of its sub-agents get results, unless a requeued run may repeat them: the
 * thread's next turn closes those of a dead run.
 */
async function endDurable(
  log: EventLogClient,
  { status, error }: EndedDurable,
  durableRun: DurableRun,
  { run: row, thread }: Taken,
  store: TenantStore,
  { deps, bus }: Pick<ActorContext<PatternDeps>, "deps" | "bus">,
): Promise<null> {
  const { run_id, tenant_id } = durableRun.place;
  const { usage = null, step = 0 } = row.spent ?? {};
  const rootKey = row.asked.parent?.root_key ?? row.thread_key ?? noThread;
  const tasks = await tasksAside(store, rootKey, run_id);
  const left = [
    ...abandonOps(store, await waitsOfRun(store, run_id)),
    closeWaitsOp(store, run_id),
    ...(await endTasksOps(store, rootKey, tasks)),
  ];
  const ops = () => [...left, ...durableRun.endOps({ status, final: null, error }), ...durableRun.leaveOps()];
  const code = error.split(":", 1)[0] as string;
  const task = row.asked.parent && { task: refusedTask(code, usage) };
  const ending = { status, stop_reason: null, error: code, usage, ...task } as const;
  const closing = status === "dead" ? [] : await closeSubAgentCalls(store, thread.thread_key, thread, deps.mask);
  // A full log must be freed too, so drop what does not fit.
  const entries = [...closing, interruptedEntry(run_id, code)].slice(0, eventsMax - log.nextSeq);
  await log.end(entries, ops, ending, null);
  const standing = { run_id, status, attempt: 0, step, waiting_on: null, updated_at: deps.env.now() };
  log.publish(() => statusFrame(standing));
  tellStatus(bus, durableRun, row, status);
  durableRun.announceEnd();
  const { evaluation, workflow, parent } = row.asked;
  if (evaluation !== undefined && parent === undefined) tellEvaluation(tenant_id, evaluation, bus);
  if (workflow !== undefined) tellWorkflow(tenant_id, workflow, bus);
  // A suspended child task would otherwise wait for an answer that no run needs.
  for (const task of tasks)
    bus.tell(runAddress(tenant_id, task.suffix, task.run_id), "abort", { reason: "worker_lost" });
  return null;
}

/** Tells the tenant's listeners the status of a run that did not resume. */
function tellStatus(
  bus: PatternDeps["bus"],
  { place }: DurableRun,
  { manifest }: RunRow,
  status: string,
  waiting_on: string | null = null,
): void {
  const { tenant_id, suffix, run_id } = place;
  tellNews(bus, tenant_id, () => {
    const thread_id = suffix === "" ? null : publicThread(tenant_id, suffix);
    return { kind: "run_status", run_id, thread_id, manifest: manifest ?? "", status, waiting_on };
  });
}
