import { SvcError } from "../../bus/errors.ts";
import type { PermissionMode } from "../../bus/protocol/permission-mode.ts";
import type { SetMode } from "../../bus/protocol/thread.ts";
import { bypassScopes } from "../../governance/auth/permission-modes.ts";
import { requireScopes } from "../../governance/auth/scopes.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { ThreadDeps } from "./deps.ts";
import { agentOf, keep, untouched } from "./kept.ts";
import type { ThreadState } from "./thread-state.ts";

/**
 * Keeps what runs may do without asking from the next one on; one that has begun keeps the mode that it is in. Where no manifest is
 * known the mode is kept all the same: each run holds it against its own.
 */
export async function setMode(
  state: ThreadState,
  asked: SetMode,
  context: ActorContext<ThreadDeps>,
): Promise<{ mode: PermissionMode }> {
  const { mode, manifest, principal } = asked;
  if (mode === "bypass") requireScopes(principal, bypassScopes);
  await untouched(state);
  const agent = await agentOf(state, asked, manifest !== null, context.deps);
  if (agent !== null && !agent.permissions.allowed.has(mode)) throw new SvcError("mode_not_allowed");
  await untouched(state);
  if (state.head?.meta.permission_mode === mode) return { mode };
  await keep(state, { permission_mode: mode }, null, context);
  context.deps.audit.record(state.tenantId, {
    event_type: "permission_mode_change",
    status: mode,
    manifest_id: agent?.name ?? manifest ?? state.head?.manifest ?? "",
    principal_subj: principal.sub,
    payload: { thread_id: state.threadId, mode, via: "route" },
  });
  return { mode };
}
