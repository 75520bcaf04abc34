import { SvcError } from "../../../bus/errors.ts";
import { entryPointOf } from "../../../bus/frames/entry-points.ts";
import type { SubmitTurn } from "../../../bus/protocol/run.ts";
import { AgentMetrics } from "../../../governance/agent-metrics.ts";
import { RunHooks } from "../../../governance/hooks/run-hooks.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { OpenThread } from "../../log/messages.ts";
import type { RunDeps } from "../context/deps.ts";

/** A turn whose log is open. */
interface HookedTurn {
  readonly turn: SubmitTurn;
  readonly agent: CompiledAgent;
  /** Full id of the thread, empty without one. */
  readonly threadId: string;
  readonly thread: Pick<OpenThread, "exists">;
}

/**
 * Calls the hooks for the beginning of a session and for a message of a user, before the turn is accepted. Returns their texts for the
 * model; null for none. Refuses with blocked_by_hook.
 */
export async function askedHooks(
  { turn, agent, threadId, thread }: HookedTurn,
  prompt: string | null,
  deps: RunDeps,
): Promise<readonly string[] | null> {
  const { principal, request_id, run_id, surface } = turn;
  const hooks = new RunHooks(
    {
      hooks: agent.hooks,
      tenantId: principal.tenant_id,
      manifest: agent.name,
      threadId,
      runId: run_id,
      trace: turn.trace,
      metrics: new AgentMetrics(deps.metrics, agent),
      audit(event_type, status, payload) {
        const row = { event_type, status, manifest_id: agent.name, principal_subj: principal.sub };
        deps.audit.record(principal.tenant_id, { ...row, payload: { ...payload, request_id } });
      },
    },
    deps,
  );
  const isTurn = entryPointOf(surface).work === "turn";
  const context: string[] = [];
  const ask = async (occasion: Parameters<RunHooks["call"]>[0]): Promise<void> => {
    if (!hooks.listens(occasion.event)) return;
    const outcome = await hooks.call(occasion);
    context.push(...outcome.context);
    if (outcome.blocked === null) return;
    const { hook, reason } = outcome.blocked;
    throw new SvcError("blocked_by_hook", { subject: `${hook}: ${reason || "blocked"}` });
  };
  if (isTurn && threadId !== "" && !thread.exists) await ask({ event: "session_start", key: "" });
  if (isTurn && prompt !== null) await ask({ event: "user_prompt_submit", key: "", texts: { prompt } });
  return context.length === 0 ? null : context;
}
