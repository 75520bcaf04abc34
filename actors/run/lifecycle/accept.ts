import { publicThread } from "../../../bus/address.ts";
import { SvcError } from "../../../bus/errors.ts";
import { entryPointOf } from "../../../bus/frames/entry-points.ts";
import { outputFor } from "../../../bus/frames/make-output.ts";
import { tellNews } from "../../../bus/protocol/news.ts";
import { principalId } from "../../../bus/protocol/principal.ts";
import type { ResponseAsked, TurnAccepted } from "../../../bus/protocol/run.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { WriteOp } from "../../../storage/store/store.ts";
import { noteRetentionOp } from "../../../storage/tables/manifest-retention.ts";
import type { DurableAsked } from "../../../storage/tables/run-columns.ts";
import type { NewRun, RunRow } from "../../../storage/tables/runs.ts";
import { keyExpiresAt } from "../../log/earlier-answer.ts";
import type { AskedKey, BeginRun } from "../../log/messages.ts";
import type { ActorContext } from "../../runtime/define.ts";
import { taskOutput } from "../child-runs/parent-report.ts";
import { joiningOps } from "../child-runs/task-start.ts";
import type { EventLog } from "../event-log/event-log.ts";
import type { EventLogClient } from "../event-log/event-log-client.ts";
import { claimOps } from "../event-log/settlement.ts";
import type { OpenTurn, TakenIn } from "../intake/take-in.ts";
import type { RunSpec } from "../spec/run-spec.ts";
import type { PatternDeps } from "../steps/pattern.ts";
import { acceptedRun, beginDurable, checkQueue, settleAcceptedOps, slotFor, tellDue, tellLeft } from "./durable.ts";
import { ownRun, type RunState } from "./own-run.ts";
import { Run } from "./run.ts";

/**
 * Accepts a turn. One batch stores the caller's messages, the run row and the claim of the idempotency key. Without a key the
 * model call starts while that batch commits.
 */
export async function acceptRun(
  state: RunState,
  opened: OpenTurn,
  taken: TakenIn,
  log: EventLog,
  context: ActorContext<PatternDeps>,
): Promise<TurnAccepted> {
  const { deps, bus } = context;
  const { turn, agent, key, store } = opened;
  const { start, leftOut } = taken;
  const { spec } = start;
  const expiresAt = turn.thread_suffix === null ? keyExpiresAt(spec.startedAt + waitMs(agent), deps.settings) : null;
  const claim = key === null ? [] : claimOps(store, spec, deps.owner, expiresAt);
  const joining = joiningOps(store, spec, agent);
  const ops = [...claim, ...joining, ...manifestOps(opened, spec.startedAt)];
  const begun = log.begin({ ...firstBatch(opened, taken), ops, run: newRun(spec, deps.owner, null) });
  // The claim of a key may be refused, so a run with a key starts after the commit. So do a run that opens tool sources, and a task,
  // which reserves from the budgets that the batch joins. Any other run calls its model while the batch commits. No frame leaves before
  // the commit.
  if (key !== null || start.tools !== null || joining.length > 0) await accepted(begun, key);
  state.output = turn.parent
    ? taskOutput(turn.parent, turn.principal.tenant_id, bus)
    : outputFor(turn, bus.channel(turn.channel), agent.name, spec.startedAt, spec.fromSeq);
  const run = new Run(start, log, state.output, deps);
  ownRun(state, run, log, context);
  await accepted(begun, key, run);
  return leftOut === null ? started : { ...started, ...leftOut };
}

export const started: TurnAccepted = { kind: "started" };

/** Accepts a durable run by writing its row. The run starts with that batch if it gets a slot. Refuses with run_queue_full. */
export async function acceptDurableRun(
  state: RunState,
  opened: OpenTurn,
  taken: TakenIn,
  log: EventLogClient,
  durable: DurableAsked,
  context: ActorContext<PatternDeps>,
): Promise<TurnAccepted> {
  const { deps } = context;
  const { turn, agent, key, store } = opened;
  const { spec } = taken.start;
  const place = { tenant_id: turn.principal.tenant_id, suffix: turn.thread_suffix ?? "", run_id: turn.run_id };
  const accepting = acceptedRun(place, spec.startedAt + durable.ttl_ms);
  const body = deps.manifests.keep(store, agent);
  const slot = await slotFor(place, turn, context);
  try {
    if (!slot) await checkQueue(store);
    const first: Omit<BeginRun, "run_id"> = {
      ...firstBatch(opened, taken),
      ops: [
        ...claimOps(store, spec, deps.owner, null),
        ...settleAcceptedOps(store, key, accepting, spec, deps.settings),
        ...body.ops,
        ...joiningOps(store, spec, agent),
        ...manifestOps(opened, spec.startedAt),
      ],
      run: newRun(spec, deps.owner, { ...durable, body: body.digest }),
      accepted: slot ? "begun" : "aside",
    };
    const row = await accepted(log.begin(first), key);
    body.kept();
    if (slot && row !== null) ownRun(state, beginDurable(taken.start, row, place, log, context), log, context);
  } catch (error) {
    if (slot) tellLeft(context);
    throw error;
  }
  if (!slot) {
    state.suspended = true;
    tellDue(place, context);
    const { tenant_id, suffix, run_id } = place;
    tellNews(context.bus, tenant_id, () => {
      const thread_id = suffix === "" ? null : publicThread(tenant_id, suffix);
      return { kind: "run_status", run_id, thread_id, manifest: agent.name, status: "accepted", waiting_on: null };
    });
  }
  const answer = {
    ...({ kind: "accepted", run: accepting, replayed: false, wait_ms: waitMs(agent) } as const),
    ...taken.leftOut,
  };
  return slot ? { ...answer, begun_at: spec.fromSeq } : answer;
}

/** Max milliseconds that a client waits for a durable run: the wall-clock limit of the run. */
export function waitMs({ limits }: CompiledAgent): number {
  return limits.max_wall_clock_seconds * 1_000;
}

/** Returns the statements that the manifest of a run adds to its first batch. */
function manifestOps({ pinning, agent, store }: OpenTurn, startedAt: number): readonly WriteOp[] {
  const pins = pinning === null ? none : [pinning];
  return agent.retentionDays === null ? pins : [...pins, noteRetentionOp(store, agent.name, startedAt)];
}

const none: readonly never[] = [];

/** Returns the part of the first batch that all runs share. */
function firstBatch(
  { turn, agent, pinning }: OpenTurn,
  { start, entries, preview, kept }: TakenIn,
): Omit<BeginRun, "run_id" | "ops" | "run"> {
  return {
    entries,
    manifest: agent.name,
    model_id: start.spec.routes[0]?.id ?? "",
    preview,
    ...((kept !== null || pinning !== null) && { kept: { ...kept, ...(pinning !== null && { pinned: true }) } }),
    ...(turn.parent && { parent_session_id: turn.parent.root_thread_id }),
  };
}

/** Awaits the first batch. If it fails, the run is stopped and the error is thrown. */
function accepted(begun: Promise<RunRow | null>, key: AskedKey | null, run?: Run): Promise<RunRow | null> {
  return begun.catch((error: unknown) => {
    run?.abort("worker_lost");
    const refusal = SvcError.from(error);
    if (refusal.code !== "conflict") throw refusal;
    // With a key: the same request on another connection has just claimed it.
    throw new SvcError(key === null ? "conflict" : "idempotency_in_progress");
  });
}

/** Returns the run row of a new turn. */
function newRun(spec: RunSpec, owner: string, durable: DurableAsked | null = null): NewRun {
  const {
    run_id,
    request_id,
    surface,
    agent,
    outputStyle,
    mode,
    routes,
    temperature,
    max_tokens,
    startedAt,
    response,
    options,
    againOf,
  } = spec;
  const { tenant_id: _tenant, ...principal } = spec.principal;
  const { keyOutlivesRun } = entryPointOf(surface);
  return {
    run_id,
    owner,
    manifest: agent.name,
    manifest_digest: agent.digest,
    manifest_version: agent.version,
    parent_run_id: spec.parent?.run_id ?? null,
    hops: spec.hops,
    asked: {
      surface,
      request_id,
      principal,
      routes: routes.map(({ id }) => id),
      temperature,
      max_tokens,
      ...(outputStyle === null ? {} : { output_style: outputStyle }),
      ...(mode === "default" ? {} : { permission_mode: mode }),
      ...(spec.parent !== null && { parent: spec.parent }),
      ...(response !== null && { response: askedOf(response) }),
      ...(options !== null && { options }),
      ...(durable !== null && { durable }),
      ...(againOf !== null && { again_of: againOf }),
      ...(spec.trigger !== null && { trigger: spec.trigger }),
      ...(spec.evaluation !== null && { evaluation: spec.evaluation }),
      ...(spec.workflow !== null && { workflow: spec.workflow }),
      ...(spec.call !== null && durable !== null && { call: spec.call }),
      ...(spec.trace && {
        trace: { trace_id: spec.trace.trace_id, span_id: spec.trace.parent_span_id ?? spec.trace.span_id },
      }),
    },
    idempotency_scope: keyOutlivesRun ? null : (spec.idempotency?.scope ?? null),
    started_at: startedAt,
    ...taskOf(spec),
  };
}

/** Returns the context and the caller of a task of the A2A protocol; null for every other run. */
function taskOf({ surface, thread_suffix, principal }: RunSpec): Pick<NewRun, "a2a_context" | "a2a_owner"> {
  const a2a_context = entryPointOf(surface).contextOf(thread_suffix ?? "");
  return { a2a_context, a2a_owner: a2a_context === null ? null : principalId(principal) };
}

/** Returns the fields of a Responses request that the run needs after its start. */
function askedOf(response: ResponseAsked): ResponseAsked {
  const { previous_response_id, instructions, metadata, max_output_tokens, temperature, store, background } = response;
  const kept = { previous_response_id, instructions, metadata, max_output_tokens, temperature, store };
  return background ? { ...kept, background } : kept;
}
