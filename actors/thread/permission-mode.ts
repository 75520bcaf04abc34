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
 * Stores the permission mode for later runs; a live run keeps its own. Without a known manifest the mode is stored unchecked,
 * because each run checks it against its manifest.
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
