import { splitRunKey, threadAddress } from "../../../bus/address.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { AcceptedRun } from "../../../bus/protocol/run.ts";
import { refreshAccess } from "../../../governance/auth/fresh-access.ts";
import { withHeldScopes } from "../../../governance/auth/held-scopes.ts";
import { admit } from "../../../governance/auth/inbound.ts";
import { isRevoked } from "../../../governance/auth/revoked.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { type DurableRunRow, durableRowById, requeueDurableOp } from "../../../storage/tables/durable-rows.ts";
import { readEvents } from "../../../storage/tables/events.ts";
import type { RunAsked, RunSpent } from "../../../storage/tables/run-columns.ts";
import { type NewRun, type RunRow, runByKey } from "../../../storage/tables/runs.ts";
import { requeuedEntry } from "../../log/entry.ts";
import { messageOf } from "../../log/message.ts";
import type { OpenThread } from "../../log/messages.ts";
import type { ActorContext } from "../../runtime/define.ts";
import { joiningOps } from "../child-runs/task-start.ts";
import { EventLogClient } from "../event-log/event-log-client.ts";
import { durableAsked } from "../intake/admission.ts";
import type { PatternDeps } from "../steps/pattern.ts";
import { acceptedRun, checkQueue, tellDue } from "./durable.ts";
import type { RunState } from "./own-run.ts";
import { routesOfRun } from "./resumed-spec.ts";

// Requeue accepts a new run that continues a dead one; the dead run stays dead. The new run has its own id, time and webhooks,
// and starts after the last logged step of the dead run. It acts for the same principal. Its limits are what the dead run has
// left of its own.

/**
 * Accepts a run that continues a dead one. Repeated with the same id, it returns the same answer.
 * Refuses with run_not_found, run_not_dead, run_requeued, principal_revoked, model_not_configured, run_queue_full and
 * run_in_progress, and as the resolution of the manifest does. Refuses with conflict if the thread has newer messages, or the
 * budget of a background task was deleted.
 */
export async function requeueRun(
  state: RunState,
  deadId: string,
  context: ActorContext<PatternDeps>,
): Promise<AcceptedRun> {
  const { deps, bus, env } = context;
  const { tenantId, suffix, runId } = splitRunKey(context.key);
  const place = { tenant_id: tenantId, suffix: suffix ?? "", run_id: runId };
  const store = deps.store.tenant(tenantId);
  const before = await durableRowById(store, runId);
  if (before !== undefined) return acceptedRun(place, before.expires_at);
  const dead = await deadRun(store, deadId);
  await refreshAccess({ ...dead.asked.principal, tenant_id: tenantId }, deps, env.now());
  const principal = withHeldScopes({ ...dead.asked.principal, tenant_id: tenantId }, deps, env.now());
  if (isRevoked(principal, deps, env.now())) throw new SvcError("principal_revoked");
  const agent = await deps.manifests.resolve(tenantId, dead.manifest, suffix);
  admit(principal, agent.inbound);
  // Check the model first: a run without its model would die, and a dead run can be requeued only once.
  routesOfRun(dead, agent, deps.models);
  const durable = durableAsked(agent, dead.asked, deps.settings) ?? dead.asked.durable;
  if (durable === undefined) throw new Error(`the dead run ${deadId} was not durable`);
  await checkQueue(store);
  const log = new EventLogClient(bus, threadAddress(tenantId, place.suffix), runId, env);
  const opened = await log.open({
    ...{ idempotency: null, needed: 1, withUser: false, lease: null, appends: null, compacts: false },
    makeRoom: () => null,
  });
  if (opened.kind === "busy") throw new SvcError("run_in_progress", { subject: opened.run_id });
  if (opened.kind !== "open") throw new SvcError("actor_lost");
  try {
    await checkStandsAt(dead, opened.thread, store);
    const startedAt = env.now();
    const accepting = acceptedRun(place, startedAt + durable.ttl_ms);
    const body = deps.manifests.keep(store, agent);
    const { digest: manifest_digest, version: manifest_version } = agent;
    const own = { manifest_digest, manifest_version, owner: deps.owner, started_at: startedAt };
    const run = { ...continuedRow(dead, runId), ...own };
    const { parent = null } = dead.asked;
    const joining = joiningOps(
      store,
      { run_id: runId, parent, workflow: null, thread_key: opened.thread.thread_key },
      agent,
    );
    await log.begin({
      entries: [requeuedEntry(runId, deadId)],
      ops: [requeueDurableOp(store, deadId, runId), ...body.ops, ...joining],
      run: {
        ...run,
        asked: { ...run.asked, durable: { ...durable, body: body.digest } },
      },
      manifest: agent.name,
      model_id: dead.asked.routes[0] ?? "",
      preview: null,
      accepted: "aside",
    });
    body.kept();
    state.log = log;
    state.suspended = true;
    state.accepted = { kind: "accepted", run: accepting, replayed: false };
    tellDue(place, context);
    return accepting;
  } catch (error) {
    log.release();
    throw error;
  }
}

async function deadRun(store: TenantStore, id: string): Promise<RunRow> {
  const durableRun: DurableRunRow | undefined = await durableRowById(store, id);
  const run = durableRun && (await runByKey(store, durableRun.run_key));
  if (!durableRun || !run) throw new SvcError("run_not_found");
  if (run.status !== "dead") throw new SvcError("run_not_dead", { subject: run.status });
  if (durableRun.requeued_as !== null) throw new SvcError("run_requeued", { subject: durableRun.requeued_as });
  return run;
}

/**
 * Refuses with conflict if the thread has messages after the dead run, because the model would see them in the middle of a step.
 */
async function checkStandsAt(
  { last_seq }: RunRow,
  { thread_key, next_seq, leaf_seq }: OpenThread,
  store: TenantStore,
): Promise<void> {
  const last = last_seq ?? -1;
  if (leaf_seq < last) throw new SvcError("conflict");
  const since = await readEvents(store, thread_key, last + 1, next_seq);
  const isRead = (since.at(-1)?.seq ?? last) === next_seq - 1;
  if (!isRead || since.some((event) => messageOf(event) !== null)) throw new SvcError("conflict");
}

/** Returns the run row of the new run, without the fields that its own start sets. */
function continuedRow(
  { run_id, manifest, parent_run_id, hops, asked, first_seq, spent, a2a_context, a2a_owner }: RunRow,
  runId: string,
): Omit<NewRun, "owner" | "manifest_digest" | "manifest_version" | "started_at"> {
  const { first_run_id = run_id, first_seq: first = first_seq ?? 0 } = asked.requeued ?? {};
  const used = spent ?? asked.requeued?.spent ?? null;
  const requeued = { run_id, first_run_id, first_seq: first, spent: used && limitsUsed(used) };
  const same = { manifest, parent_run_id, hops, a2a_context, a2a_owner };
  return { run_id: runId, ...same, asked: { ...unshared(asked), requeued }, idempotency_scope: null };
}

/** A step of a workflow has failed with its dead run, so the new run spends nothing of the workflow. */
function unshared({ workflow, ...asked }: RunAsked): RunAsked {
  if (workflow === undefined) return asked;
  const { shared: _, ...own } = workflow;
  return { ...asked, workflow: own };
}

/**
 * Returns the usage that counts against the limits of the new run. Its wall clock starts at zero, and its answer reports only its
 * own usage.
 */
function limitsUsed({ step: _step, active_ms: _active, usage: _usage, ...used }: RunSpent): RunSpent {
  return { ...used, usage: null };
}
