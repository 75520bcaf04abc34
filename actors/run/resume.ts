import { threadAddress } from "../../bus/address.ts";
import type { RunOutput } from "../../bus/frames/output.ts";
import { silentOutput } from "../../bus/frames/silent-output.ts";
import type { AbortReason } from "../../bus/protocol/run.ts";
import type { ModelRoute } from "../../manifests/registries.ts";
import { styledPrompt } from "../../manifests/sections/output-styles.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { readEvents } from "../../storage/tables/events.ts";
import type { RunRow } from "../../storage/tables/runs.ts";
import { approvalsOfRun, expireWaitsOp, waitsOfRun } from "../../storage/tables/waits.ts";
import { loadBranch } from "../log/branch.ts";
import type { OpenThread } from "../log/messages.ts";
import type { ActorContext } from "../runtime/define.ts";
import { thinkingFor } from "./admission.ts";
import { lastUserMessage, messagesNeeded, turnStartOfRun } from "./context/working-set.ts";
import { isAlive, taskOutput } from "./parent-link.ts";
import type { PatternDeps } from "./pattern.ts";
import type { RunPlan } from "./plan.ts";
import { agentFor } from "./request-tools.ts";
import { Run } from "./run.ts";
import { resumeMode } from "./run-mode.ts";
import { Tail } from "./tail.ts";
import { ThreadLink } from "./thread-link.ts";

// A run that was put aside begins again at the step that its log says, in this process or in another: its plan is made from its row,
// what it was told from its log, what it waits for from the rows of its waits.

/** Which run of which conversation. */
export interface RunPlace {
  readonly tenantId: string;
  readonly suffix: string;
  readonly runId: string;
}

/** Why a run is taken up: `due` when the time of a wait may be over, `stop` when it is to end as soon as it is there. */
export interface WhyResume {
  readonly due: boolean;
  readonly stop: AbortReason | null;
}

/** The run, or null when it does not wait, or has nothing to go on with. */
export async function resumeRun(
  { tenantId, suffix, runId }: RunPlace,
  output: RunOutput | null,
  { due, stop }: WhyResume,
  { deps, bus }: ActorContext<PatternDeps>,
): Promise<{ run: Run; log: ThreadLink; plan: RunPlan } | null> {
  const store = deps.store.tenant(tenantId);
  if (due) await store.write([expireWaitsOp(store, runId)]);
  const waits = await waitsOfRun(store, runId);
  // A hint may come late, or for a wait that was taken up already.
  if (stop === null && waits.every(({ state }) => state === "open")) return null;
  const log = new ThreadLink(bus, threadAddress(tenantId, suffix), runId);
  const taken = await log.take(deps.owner);
  if (taken.kind !== "taken") return null;
  try {
    const plan = await planOf(taken.run, taken.thread, waits, { tenantId, suffix, runId }, store, deps);
    const isOrphan = plan.parent !== null && !(await isAlive(plan.parent, tenantId, bus));
    const told = output ?? (plan.parent ? taskOutput(plan.parent, tenantId, bus) : silentOutput);
    const run = new Run(plan, log, told, deps);
    if (stop !== null) run.abort(stop);
    else if (isOrphan) run.abort("worker_lost");
    return { run, log, plan };
  } catch (error) {
    // It cannot go on: its manifest is gone, or its model.
    log.release();
    throw error;
  }
}

type Waits = Awaited<ReturnType<typeof waitsOfRun>>;

async function planOf(
  row: RunRow,
  thread: Pick<OpenThread, "thread_key" | "next_seq" | "leaf_seq" | "thinking_level" | "queued">,
  waits: Waits,
  { tenantId, suffix, runId }: RunPlace,
  store: TenantStore,
  deps: PatternDeps,
): Promise<RunPlan> {
  const { asked } = row;
  const { options = null } = asked;
  const principal = { ...asked.principal, tenant_id: tenantId };
  const resolved = agentFor(await deps.manifests.resolve(tenantId, row.manifest, suffix), options);
  const { mode, agent } = resumeMode(resolved, row, principal);
  const fromSeq = row.first_seq ?? 0;
  const tail = await readTail(store, thread.thread_key, fromSeq, thread.next_seq);
  // A client's results go on with the turn that they are of.
  const continues = asked.surface === "continue" || tail.userMessages === 0;
  const needed = messagesNeeded(agent.session) + tail.messages;
  const branch = await loadBranch(store, thread.thread_key, thread.leaf_seq, needed, continues);
  const routes = asked.routes.flatMap((id) => deps.models.routes.get(id) ?? []);
  deps.models.provider((routes[0] ?? agent.model.route) as ModelRoute);
  const key = row.idempotency_scope;
  const outputStyle = asked.output_style ?? null;
  return {
    run_id: runId,
    request_id: asked.request_id,
    surface: asked.surface,
    principal,
    agent,
    mode,
    outputStyle,
    systemPrompt: styledPrompt(agent, outputStyle),
    routes: routes.length > 0 ? routes : [agent.model.route],
    temperature: asked.temperature,
    max_tokens: asked.max_tokens,
    thinking: thinkingFor(agent, thread.thinking_level),
    thread_suffix: suffix,
    thread_key: thread.thread_key,
    branch,
    turnStart: continues ? lastUserMessage(branch) : turnStartOfRun(branch, Math.max(0, branch.length - tail.messages)),
    nudge: null,
    parent: asked.parent ?? null,
    response: asked.response ?? null,
    options,
    userText: null,
    startedAt: row.started_at,
    origin: key === null ? null : runId,
    idempotency: key === null ? null : { scope: key, fingerprint: "", stream: key.startsWith('["stream"') },
    fromSeq,
    queued: thread.queued,
    resumed: {
      step: tail.steps,
      calls: tail.open(waits),
      callIds: tail.callIds,
      spent: row.spent,
      notes: tail.notes,
      ofMembers: tail.ofMembers,
      waits,
      approvals: await approvalsOfRun(store, runId),
    },
  };
}

/** What a run has in its log. */
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
