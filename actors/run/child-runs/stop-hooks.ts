import { RunHooks } from "../../../governance/hooks/run-hooks.ts";
import type { Hook } from "../../../manifests/sections/hooks.ts";
import type { RunContext } from "../context/run-context.ts";

// The hook event subagent_stop of background tasks: the run that started the task may have ended, so the task calls the hooks of its agent.

/** Returns the hooks that the end of a background task calls, for its run row; null for none. */
export function stopHooksOf({ spec: { agent } }: RunContext): { manifest: string; hooks: string } | null {
  const hooks = agent.hooks.filter(({ event }) => event === "subagent_stop");
  return hooks.length === 0 ? null : { manifest: agent.name, hooks: JSON.stringify(hooks) };
}

/** The end of a task. */
interface TaskEnd {
  readonly ok: boolean;
  readonly final: string | null;
  readonly failure: string | null;
}

/** Calls the hooks of the agent that started a background task, after its end. Never rejects. */
export async function callStopHooks(runContext: RunContext, { ok, final, failure }: TaskEnd): Promise<void> {
  const { spec, deps, metrics } = runContext;
  const { background, task_id, root_thread_id: threadId } = spec.parent ?? {};
  if (background?.stop_hooks === undefined || task_id === undefined || threadId === undefined) return;
  const { manifest, hooks } = background.stop_hooks;
  const { tenant_id: tenantId, sub: principal_subj } = spec.principal;
  const run = {
    ...{ tenantId, manifest, threadId, metrics },
    hooks: JSON.parse(hooks) as readonly Hook[],
    runId: spec.run_id,
    trace: spec.trace,
    audit(...[event_type, status, payload]: Parameters<RunContext["audit"]>): void {
      const row = { event_type, status, manifest_id: manifest, principal_subj };
      deps.audit.record(tenantId, { ...row, payload: { ...payload, request_id: spec.request_id } });
    },
  };
  const names = { agent: spec.agent.name, outcome: ok ? "ok" : "error" };
  await new RunHooks(run, deps).call({
    ...{ event: "subagent_stop", key: task_id, names },
    texts: { answer: final ?? failure ?? "" },
  });
}
