import { runAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { fromJsonText, type JsonText, toJsonText } from "../../bus/protocol/json-text.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { OfferedTools } from "../../bus/protocol/single-call.ts";
import type { AskedWorkflow, IfMatch } from "../../bus/protocol/workflow.ts";
import { auditOp } from "../../governance/audit.ts";
import { type Checked, checkDefinition } from "../../governance/workflows/check.ts";
import { isRecord } from "../../governance/workflows/definition.ts";
import { pinnedRevisions } from "../../governance/workflows/pinned-revisions.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import {
  anyWorkflow,
  hasWorkflows,
  liveWorkflow,
  removeWorkflow,
  saveWorkflow,
  type WorkflowRow,
} from "../../storage/tables/workflows.ts";
import { type ActorContext, defineActor } from "../runtime/define.ts";
import type { WorkflowDeps } from "./deps.ts";

interface WorkflowsState {
  readonly store: TenantStore;
}

/** Max workflows of a tenant. */
const workflowsMax = 1_000;
/** Manifests of a definition that a check asks for at once. */
const manifestsMax = 100;

/** Saves, checks and deletes the workflows of one tenant. It has no state of its own. */
export const workflowsActor = defineActor<"workflows", WorkflowsState, WorkflowDeps>({
  kind: "workflows",
  mailboxLimit: 256,
  interleaves: ["check", "kinds"],
  reserved: [],
  passivateAfterMs: 60_000,
  load: ({ key, deps }) => ({ store: deps.store.tenant(key) }),
  idle: () => true,
  crashed: () => {},
  on: {
    async check(_state, { definition, principal }, context) {
      const { ports, problems } = await checked(definition, principal, context);
      return {
        ok: !problems.hasErrors,
        ports: toJsonText(Object.fromEntries(ports)),
        problems: toJsonText(problems.list),
      };
    },

    kinds(_state, _body, { deps }) {
      const items = [...deps.stepKinds.values()].map(
        ({ kind, source, description, config, inputs, outputs, isInner }) => ({
          ...{ kind, source, description, config_schema: config, inputs: inputs ?? [], outputs },
          takes_any_input: inputs === null,
          in_map: isInner === true,
        }),
      );
      return { items: toJsonText(items) };
    },

    async put({ store }, asked, context) {
      const { id, if_match, principal } = asked;
      const { problems } = await checked(asked.definition, principal, context);
      if (problems.hasErrors) throw new SvcError("workflow_invalid", { detail: { problems: problems.list } });
      const before = await anyWorkflow(store, id);
      const live = before?.state === "live" ? before : undefined;
      if (!matches(if_match, live)) throw new SvcError("revision_mismatch");
      if (live === undefined && (await hasWorkflows(store, workflowsMax)))
        throw new SvcError("too_many_workflows", { detail: `a tenant has at most ${workflowsMax} workflows` });
      const { revision } = await save(store, before, asked, context);
      return { created: live === undefined, revision };
    },

    async remove({ store }, { id, if_match, principal }, { env, deps }) {
      const row = await liveWorkflow(store, id);
      if (row === undefined) throw new SvcError("not_found");
      if (!matches(if_match, row)) throw new SvcError("revision_mismatch");
      const event = {
        event_type: "workflow_deleted",
        status: "ok",
        manifest_id: "",
        principal_subj: principal.sub,
        payload: { workflow_id: id, revision: row.revision },
      } as const;
      const ops = [auditOp(store, { env, mask: deps.mask }, event)];
      await removeWorkflow(store, row, {
        now: env.now(),
        pinned: pinnedRevisions(deps.settings, store.tenantId, id),
        ops,
      });
      return {};
    },
  },
});

async function save(
  store: TenantStore,
  before: WorkflowRow | undefined,
  { id, name, description, definition, principal }: AskedWorkflow,
  { env, deps }: ActorContext<WorkflowDeps>,
): Promise<WorkflowRow> {
  const { sub, scopes, scheme, issuer } = principal;
  const event = {
    event_type: "workflow_saved",
    status: "ok",
    manifest_id: "",
    principal_subj: sub,
    payload: { workflow_id: id, revision: (before?.revision ?? 0) + 1 },
  } as const;
  return saveWorkflow(
    store,
    before,
    { id, name, description, definition, saver: { sub, scopes, scheme, issuer } },
    {
      now: env.now(),
      limit: deps.settings.tenantStoredBytes,
      pinned: pinnedRevisions(deps.settings, store.tenantId, id),
      ops: [auditOp(store, { env, mask: deps.mask }, event)],
    },
  );
}

/** True if a revision fits an If-Match header. A workflow that is not there fits none. */
function matches(asked: IfMatch, row: WorkflowRow | undefined): boolean {
  if (asked === null) return true;
  if (row === undefined) return false;
  return asked === "any" || asked.includes(row.revision);
}

/** Checks a definition, and whether its manifests and tools exist for the caller. */
async function checked(
  definition: JsonText<unknown>,
  principal: Principal,
  { env, bus, deps }: ActorContext<WorkflowDeps>,
): Promise<Checked> {
  const found = await checkDefinition(fromJsonText(definition), deps.stepKinds, env);
  const uses = usesOf(found).slice(0, manifestsMax);
  const asked = new Map<string, Promise<SvcError | null>>();
  const tools = new Map<string, Promise<ReadonlySet<string> | null>>();
  for (const { step_id, path, manifest, tool } of uses) {
    const refusal = asked.get(manifest) ?? admitted(manifest, principal, bus);
    asked.set(manifest, refusal);
    const error = await refusal;
    if (error !== null) {
      const isUnknown = error.code === "unknown_manifest" || error.code === "invalid_manifest";
      if (isUnknown)
        found.problems.add(
          step_id,
          `${path}.manifest`,
          "unknown_manifest",
          `no manifest is called ${JSON.stringify(manifest)}`,
        );
      else {
        const words = `the manifest ${manifest} does not admit the caller: ${error.code}`;
        found.problems.add(step_id, `${path}.manifest`, "not_admitted", words, "warning");
      }
      continue;
    }
    if (tool === null) continue;
    const offered = tools.get(manifest) ?? toolsOf(manifest, principal, env.id(), bus);
    tools.set(manifest, offered);
    const names = await offered;
    if (names !== null && !names.has(tool)) {
      const words = `the manifest ${manifest} has no tool ${JSON.stringify(tool)} that can be called by itself`;
      found.problems.add(step_id, `${path}.tool`, "unknown_tool", words);
    }
  }
  return found;
}

interface Use {
  readonly step_id: string;
  readonly path: string;
  readonly manifest: string;
  readonly tool: string | null;
}

/** Returns the manifests and tools that a definition names. */
function usesOf({ definition }: Checked): Use[] {
  return (definition?.steps ?? []).flatMap(({ id, kind, config }, at) => {
    const path = `steps.${at}.config`;
    const inner = kind === "map" && isRecord(config.step) ? config.step : null;
    const own = inner === null ? { kind, config, path } : { ...inner, path: `${path}.step.config` };
    const given = isRecord(own.config) ? own.config : {};
    if ((own.kind !== "agent" && own.kind !== "tool_call") || typeof given.manifest !== "string") return [];
    const tool = own.kind === "tool_call" && typeof given.tool === "string" ? given.tool : null;
    return [{ step_id: id, path: own.path, manifest: given.manifest, tool }];
  });
}

/** Returns why a caller may not run a manifest; null if it may. */
async function admitted(
  name: string,
  principal: Principal,
  bus: ActorContext<WorkflowDeps>["bus"],
): Promise<SvcError | null> {
  try {
    await bus.ask({ kind: "manifests", key: principal.tenant_id }, "admit", { name, principal, tool: null });
    return null;
  } catch (error) {
    const refusal = SvcError.from(error);
    if (refusal.retryable || refusal.code === "internal_error") throw error;
    return refusal;
  }
}

/** Returns the tools of a manifest that a step may call; null if its tool sources cannot be opened now. */
async function toolsOf(
  manifest: string,
  principal: Principal,
  id: string,
  bus: ActorContext<WorkflowDeps>["bus"],
): Promise<ReadonlySet<string> | null> {
  try {
    const { tools }: OfferedTools = await bus.ask(runAddress(principal.tenant_id, null, id), "tools", {
      principal,
      manifest,
    });
    return new Set(fromJsonText(tools).map(({ name }) => name));
  } catch {
    return null;
  }
}
