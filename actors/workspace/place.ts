import type { Logger } from "pino";
import { splitThreadId } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { AskWorkspace, WorkspaceTree } from "../../bus/protocol/workspace.ts";
import type { TenantSemaphores } from "../../bus/queues/tenant-semaphores.ts";
import type { AuditLog } from "../../governance/audit.ts";
import { admit } from "../../governance/auth/inbound.ts";
import type { Secrets } from "../../governance/secret-mask.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { Store } from "../../storage/store/store.ts";
import { threadBySuffix } from "../../storage/tables/threads.ts";
import type { Checkouts } from "../checkouts/checkouts.ts";
import type { ManifestLibrary } from "../library/manifest-library.ts";
import type { ActorContext } from "../runtime/define.ts";
import { ToolRefusal } from "../tools/workspace/refusal.ts";
import { threadCheckout } from "../tools/workspace/thread-checkout.ts";
import type { Workspace } from "../tools/workspace/workspace.ts";

/** Dependencies of the workspace actor. */
export interface WorkspaceDeps {
  readonly store: Store;
  readonly settings: Pick<Settings, "workspaceRoot" | "workspaceDeploymentTenants" | "repoCheckoutTtlDays">;
  readonly manifests: Pick<ManifestLibrary, "resolve">;
  readonly workspaceSemaphores: TenantSemaphores;
  readonly audit: AuditLog;
  readonly checkouts: Checkouts;
  readonly bus: Bus;
  readonly secrets: Pick<Secrets, "resolve">;
  readonly log: Logger;
}

/** A workspace in use by a client. */
export interface Place extends Workspace, Pick<WorkspaceTree, "scope" | "manifest"> {
  readonly env: Env;
  /** Whether the files are those of a repository. */
  readonly rootKind: WorkspaceTree["root_kind"];
  /** Never fires: operations that have begun finish. */
  readonly signal: AbortSignal;
  /** Audits a change. */
  audit(event: "workspace_write" | "workspace_delete" | "workspace_rename", payload: object): void;
}

const never = new AbortController().signal;

/**
 * Runs `work` in the thread's workspace. The scope comes from the manifest of the newest run, or from the named one if there was
 * no run. Converts refusals to API errors.
 */
export async function inPlace<T>(
  asked: AskWorkspace,
  { key, deps, env }: ActorContext<WorkspaceDeps>,
  work: (place: Place) => Promise<T>,
): Promise<T> {
  const { workspaceRoot: root, workspaceDeploymentTenants: deploymentTenants } = deps.settings;
  if (root === null) throw new SvcError("workspace_not_configured");
  const { tenantId, suffix } = splitThreadId(key);
  const thread = await threadBySuffix(deps.store.tenant(tenantId), suffix);
  const manifest = thread?.manifest ?? asked.manifest;
  const checkout = threadCheckout(deps.store.tenant(tenantId), suffix, env);
  let scope: WorkspaceTree["scope"] = "thread";
  if (manifest !== null) {
    const agent = await deps.manifests.resolve(tenantId, manifest, suffix);
    admit(asked.principal, agent.inbound);
    scope = agent.workspaceScope;
  }
  const place: Place = {
    tenantId,
    threadSuffix: suffix,
    workspaceScope: scope,
    workspace: { root, deploymentTenants, checkout },
    scope,
    rootKind: (await checkout()) === null ? "scoped" : "checkout",
    manifest,
    env,
    signal: never,
    audit: (event_type, payload) =>
      deps.audit.record(tenantId, {
        event_type,
        status: "ok",
        manifest_id: manifest ?? "",
        principal_subj: asked.principal.sub,
        payload: { thread_id: key, ...payload, manifest },
      }),
  };
  return deps.workspaceSemaphores.run(tenantId, async () => {
    try {
      return await work(place);
    } catch (error) {
      if (!(error instanceof ToolRefusal)) throw error;
      const refused = refusalOf(error);
      if (refused.code === "workspace_io_error")
        deps.log.warn({ thread_id: key, err: error }, "a file system call in a workspace failed");
      throw refused;
    }
  });
}

function refusalOf({ ground, code }: ToolRefusal): SvcError {
  switch (ground) {
    case "elsewhere":
      return new SvcError("invalid_path");
    case "reserved":
      return new SvcError("reserved_path");
    case "not_a_file":
      return new SvcError("not_a_file");
    case "scope":
      return new SvcError("workspace_unavailable");
    case "changed":
      return new SvcError("workspace_changed", { detail: { sha256: null, bytes: null } });
    case null:
      break;
  }
  if (code === "transport_unavailable") return new SvcError("workspace_not_configured");
  if (code === "not_found") return new SvcError("not_found");
  // Also a path through an entry that is not a directory.
  if (code === "invalid_arguments") return new SvcError("invalid_path");
  return new SvcError("workspace_io_error");
}
