import { entryPointOf } from "../../../bus/frames/entry-points.ts";
import type { RunPlace } from "../../../bus/protocol/run.ts";
import { withHeldScopes } from "../../../governance/auth/held-scopes.ts";
import { admit } from "../../../governance/auth/inbound.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { ModelRoute } from "../../../manifests/registries.ts";
import { mayDelegate } from "../../../manifests/sections/delegation.ts";
import { styledPrompt } from "../../../manifests/sections/output-styles.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { readEvents } from "../../../storage/tables/events.ts";
import { runBudgetById } from "../../../storage/tables/run-budgets.ts";
import type { RunRow } from "../../../storage/tables/runs.ts";
import type { ThreadRow } from "../../../storage/tables/threads.ts";
import { approvalsOfRun, type WaitRow } from "../../../storage/tables/waits.ts";
import { loadBranch } from "../../log/branch.ts";
import { formOf } from "../../log/earlier-answer.ts";
import type { OpenThread } from "../../log/messages.ts";
import { branchBytesOf } from "../../log/thread-size.ts";
import { resumeMode } from "../context/run-mode.ts";
import type { OpenAsked } from "../event-log/event-log.ts";
import { Tail } from "../event-log/tail.ts";
import { thinkingFor } from "../intake/admission.ts";
import { ephemeralInstructionAfter } from "../intake/ephemeral-instruction.ts";
import { hasPin } from "../intake/manifest-pin.ts";
import { lastUserMessage, messagesNeeded, turnStartOfRun } from "../prompt/working-set.ts";
import type { DurableRun } from "../spec/durable-run.ts";
import { agentFor } from "../spec/request-tools.ts";
import type { PendingCall, RunSpec, RunStart } from "../spec/run-spec.ts";
import type { PatternDeps } from "../steps/pattern.ts";

/** Builds the run spec of a resumed run from its row, its log and its waits. */
export async function resumedSpec(
  row: RunRow,
  thread: Pick<OpenThread, "thread_key" | "next_seq" | "leaf_seq" | "thinking_level" | "pinned" | "queued"> &
    Pick<ThreadRow, "bytes">,
  waits: readonly WaitRow[],
  { tenant_id: tenantId, suffix, run_id: runId }: RunPlace,
  durableRun: DurableRun | null,
  {
    store,
    makeRoom,
    isEnding,
  }: { readonly store: TenantStore; readonly isEnding: boolean } & Pick<OpenAsked, "makeRoom">,
  deps: PatternDeps,
): Promise<RunStart> {
  const { asked } = row;
  const { requeued } = asked;
  // True for an accepted durable run that has not made a step yet.
  const isFirst = row.status === "accepted" && requeued === undefined;
  const { options = null } = asked;
  const principal = withHeldScopes({ ...asked.principal, tenant_id: tenantId }, deps, deps.env.now());
  const own = await agentOfRun(row, suffix, store, deps.manifests);
  const resolved = options === null ? own : agentFor(own, options);
  // A durable run keeps the version that it was accepted with, and a run that only ends calls no model.
  if (thread.pinned && durableRun === null && !isEnding && asked.parent === undefined) await hasPin(store, thread, own);
  if (durableRun !== null) admit(principal, resolved.inbound);
  const { mode, agent } = resumeMode(resolved, row, principal);
  const inMode = (found: CompiledAgent) => resumeMode(found, row, principal).agent;
  const fromSeq = requeued?.first_seq ?? row.first_seq ?? 0;
  const tail = await readTail(store, thread.thread_key, fromSeq, thread.next_seq);
  const isContinuation = entryPointOf(asked.surface).work === "continuation";
  // Results from a client continue the turn that made the calls.
  const continues = isContinuation || tail.userMessages === 0;
  const needed = messagesNeeded(agent.session) + tail.messages;
  const calls = tail.open(waits);
  const tools = deps.toolSets.opening(resolved, tenantId, {
    derive: inMode,
    above: asked.parent?.allow_hosts ?? [],
    needs: neededTools(calls, waits),
  });
  await makeRoom(await branchBytesOf(store, thread, needed, continues));
  const branch = await loadBranch(store, thread.thread_key, thread.leaf_seq, needed, continues);
  const hasAnswered = tail.steps > 0 || tail.notes.length > 0;
  const routes = routesOfRun(row, agent, deps.models);
  // The acceptance of a durable run has settled its key.
  const key = durableRun === null ? row.idempotency_scope : null;
  const outputStyle = asked.output_style ?? null;
  const spec: RunSpec = {
    run_id: runId,
    request_id: asked.request_id,
    ...(asked.trace && deps.tracer && { trace: deps.tracer.under(asked.trace) }),
    surface: asked.surface,
    principal,
    agent,
    mode,
    outputStyle,
    systemPrompt: styledPrompt(agent, outputStyle),
    routes,
    temperature: asked.temperature,
    max_tokens: asked.max_tokens,
    thinking: thinkingFor(agent, thread.thinking_level),
    thread_suffix: suffix,
    thread_key: thread.thread_key,
    parent: asked.parent ?? null,
    isShared: mayDelegate(agent) && (await runBudgetById(store, runId)) !== undefined,
    hops: row.hops,
    response: asked.response ?? null,
    options,
    trigger: asked.trigger ?? null,
    evaluation: asked.evaluation ?? null,
    workflow: asked.workflow ?? null,
    call: asked.call ?? null,
    userText: isFirst ? tail.userText : null,
    startedAt: row.started_at,
    keyedAs: requeued?.first_run_id ?? runId,
    againOf: asked.again_of ?? null,
    idempotency: key === null ? null : { scope: key, fingerprint: "", form: formOf(key, suffix) },
    fromSeq,
    queued: thread.queued,
    resumed: isFirst
      ? null
      : {
          step: tail.steps,
          calls,
          endedOnDenial: tail.endedOnDenial,
          answer: tail.answer,
          callIds: tail.callIds,
          spent: row.spent ?? requeued?.spent ?? null,
          notes: tail.notes,
          ofSubAgents: tail.ofSubAgents,
          waits,
          approvals: await approvalsOfRun(store, runId),
        },
  };
  // Before the first model reply, the ephemeral instruction of the start still applies.
  const isNudged = (isContinuation || asked.again_of !== undefined) && !hasAnswered;
  return {
    spec,
    durableRun,
    tools,
    branch,
    turnStart: continues ? lastUserMessage(branch) : turnStartOfRun(branch, Math.max(0, branch.length - tail.messages)),
    ephemeralInstruction: isNudged ? ephemeralInstructionAfter(branch.at(-1)) : null,
  };
}

/** Names of the tools of the calls that continue now, also of those of sub-agents. */
function neededTools(calls: readonly PendingCall[], waits: readonly WaitRow[]): string[] {
  const continued = calls.filter(({ wait, isHanded }) => wait?.state !== "open" && isHanded !== true);
  const answered = waits.filter(({ state }) => state !== "open");
  return [...continued.map(({ call }) => call.name), ...answered.map(({ call }) => call.tool)];
}

/** Returns the model routes of a run, as they are configured now. Refuses with model_not_configured, unless it calls no model. */
export function routesOfRun({ asked }: RunRow, agent: CompiledAgent, models: PatternDeps["models"]): ModelRoute[] {
  const known = asked.routes.flatMap((id) => models.routes.get(id) ?? []);
  const routes = known.length > 0 ? known : [agent.model.route];
  if (asked.call === undefined) models.provider(routes[0] as ModelRoute);
  return routes;
}

/** Returns the agent that the run was accepted with. If its manifest body is not stored, the current version of the name. */
export async function agentOfRun(
  { asked, manifest }: RunRow,
  suffix: string,
  store: TenantStore,
  manifests: PatternDeps["manifests"],
): Promise<CompiledAgent> {
  const { body } = asked.durable ?? {};
  const kept = body === undefined ? undefined : await manifests.kept(store, body);
  return kept ?? (await manifests.resolve(store.tenantId, manifest, suffix));
}

/** Reads the events of a run from its log. */
async function readTail(store: TenantStore, threadKey: number, fromSeq: number, nextSeq: number): Promise<Tail> {
  const tail = new Tail();
  for (let seq = fromSeq; seq < nextSeq; ) {
    const page = await readEvents(store, threadKey, seq, nextSeq);
    for (const event of page) tail.take(event);
    const last = page.at(-1);
    if (!last) break;
    seq = last.seq + 1;
  }
  return tail;
}
