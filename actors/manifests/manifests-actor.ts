import { nodeAddress } from "../../bus/address.ts";
import { breathe } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type {
  ManifestCard,
  ManifestListing,
  ManifestPointerView,
  ManifestVersionView,
  ResolvedManifestView,
} from "../../bus/protocol/manifests.ts";
import { tellNews } from "../../bus/protocol/news.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { AuditLog } from "../../governance/audit.ts";
import type { AuditType } from "../../governance/audit-types.ts";
import { admit } from "../../governance/auth/inbound.ts";
import type { Metrics } from "../../governance/metrics.ts";
import type { SecretMask } from "../../governance/secret-mask.ts";
import { problemLines } from "../../governance/settings/problem-lines.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { SkillCatalogs } from "../../governance/skills/catalogs.ts";
import { digestJson } from "../../manifests/canonical-json.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import { planOf } from "../../manifests/compile/manifest-plan.ts";
import { parseManifest } from "../../manifests/parse/parse.ts";
import { requestMs, type Store, type TenantStore } from "../../storage/store/store.ts";
import { countMovedPins, releasePinsOp } from "../../storage/tables/manifest-pins.ts";
import {
  countManifestChangeOp,
  insertManifestVersionOp,
  type ManifestPointerRow,
  type ManifestVersionRow,
  manifestPointer,
  manifestVersion,
  manifestVersions,
  setManifestPointerOp,
} from "../../storage/tables/manifests.ts";
import { writeStored } from "../../storage/tables/stored-bytes.ts";
import type { ManifestLibrary } from "../library/manifest-library.ts";
import { type ActorContext, defineActor } from "../runtime/define.ts";
import type { McpConnections } from "../tools/mcp/connections.ts";
import { judge } from "./judge.ts";
import { testPolicies } from "./look-ahead.ts";
import type { ModelCards } from "./model-cards.ts";
import { approveRemoteTools, remoteServers } from "./remote-tools.ts";
import { skillList, skillView } from "./skill-views.ts";

/** The subject that rolls back a canary, in audit rows. */
const scanner = { sub: "anomaly_scan" };

interface ManifestsState {
  readonly store: TenantStore;
}

/** Dependencies of the manifests actor. */
export interface ManifestsDeps {
  readonly store: Store;
  readonly manifests: ManifestLibrary;
  readonly mask: SecretMask;
  readonly cards: ModelCards;
  readonly mcp: Pick<McpConnections, "hold">;
  readonly skills: Pick<SkillCatalogs, "of" | "body">;
  readonly audit: AuditLog;
  readonly metrics: Pick<Metrics, "count">;
  readonly settings: Pick<Settings, "tenantStoredBytes">;
}

type Context = ActorContext<ManifestsDeps>;

/** Time of a listing between two yields to the event loop. */
const listingMs = 5;

/** Max problems listed for one manifest. */
const listedProblemsMax = 3;

/** Owns the stored manifests of one tenant; versions are numbered and activated one at a time. */
export const manifestsActor = defineActor<"manifests", ManifestsState, ManifestsDeps>({
  kind: "manifests",
  mailboxLimit: 256,
  interleaves: ["list", "get", "card", "admit", "plan", "policyTest", "skills", "skill"],
  detached: ["tools", "approveTools"],
  reserved: [],
  passivateAfterMs: 60_000,
  load: ({ key, deps }) => ({ store: deps.store.tenant(key) }),
  idle: () => true,
  crashed: () => {},
  on: {
    async list(_state, { models }, { key, deps, env }) {
      const items: ManifestListing[] = [];
      // A tenant may have thousands of manifests, so yield to turns of this thread. Yield by time, because cached entries take
      // almost none.
      let yieldAt = env.monotonic() + listingMs;
      for (const { name, version, source, pointer: row } of await deps.manifests.list(key)) {
        const pointer = row === null ? null : pointerView(key, row);
        const model = models ? await deps.cards.of(key, { name, version, source }) : null;
        const problems = models || source !== "directory" ? null : await problemsOf(key, name, deps);
        items.push({ name, version, source, pointer, model, problems });
        if (env.monotonic() < yieldAt) continue;
        await breathe(env);
        yieldAt = env.monotonic() + listingMs;
      }
      return { items };
    },

    async get(_state, { name, thread_suffix }, { key, deps }): Promise<ResolvedManifestView> {
      const { manifest, version, variant, source } = await deps.manifests.find(key, name, thread_suffix);
      // A stored manifest is the tenant's own text, so known secrets in it are not masked (decision 77: a mask would confirm a
      // guess).
      const masking = source === "store" ? deps.mask.forms : deps.mask.sent;
      return { name, version, variant, source, manifest: JSON.stringify(masking.value(manifest)) };
    },

    async card(_state, { name, shared }, { key, deps }): Promise<ManifestCard> {
      const { manifest, source } = await deps.manifests.find(shared ? null : key, name, null);
      const { metadata, spec } = manifest;
      const { version, description, tags } = metadata;
      const masking = source === "store" ? deps.mask.forms : deps.mask.sent;
      const transparency = spec.governance.transparency_notice;
      const card = { name: metadata.name, version, description, tags, transparency, ...spec.a2a };
      return masking.value(card) as ManifestCard;
    },

    async admit(_state, { name, principal, tool, hops = 0 }, { key, deps }) {
      const agent = await deps.manifests.resolve(key, name, null);
      admit(principal, agent.inbound);
      if (hops > agent.limits.max_peer_hops) throw new SvcError("peer_hop_limit");
      if (tool !== null && !agent.tools.some((bound) => bound.name === tool))
        throw new SvcError("not_found", { subject: tool });
      return {};
    },

    async skills({ store }, { name, principal, thread_suffix }, context) {
      const agent = await agentOf(name, context).catch(asNotFound);
      return skillList(store, { agent, principal, thread_suffix }, context.deps);
    },

    async skill({ store }, { name, skill, principal, thread_suffix }, context) {
      const agent = await agentOf(name, context).catch(asNotFound);
      return skillView(store, skill, { agent, principal, thread_suffix }, context.deps);
    },

    async put({ store }, { name, manifest: text, comment, activate, principal }, context) {
      const { key, deps, env } = context;
      const manifest: unknown = JSON.parse(text);
      const checked = await checkedManifest(manifest, name, context);
      await breathe(env);
      const pointer = (await manifestPointer(store, name)) ?? null;
      const [newest] = await manifestVersions(store, name, Number.MAX_SAFE_INTEGER, 1);
      const digest = digestJson(manifest);
      const current = pointer === null ? undefined : await manifestVersion(store, name, pointer.version);
      // An identical body changes nothing, so a deployment may repeat the request (decision 25: an identical body stores no
      // version).
      if (current?.digest === digest && activate) return versionView(key, current);
      if (newest?.digest === digest && !activate) {
        const row = await manifestVersion(store, name, newest.version);
        if (row) return versionView(key, row);
      }
      const row: ManifestVersionRow = {
        name,
        version: (newest?.version ?? 0) + 1,
        manifest: text,
        digest,
        created_at: env.now(),
        created_by: principal.sub,
        comment,
      };
      const makeActive = activate || pointer === null;
      const ops = [insertManifestVersionOp(store, row)];
      if (makeActive) {
        const pointer = pointerTo(name, row.version, principal, context);
        ops.push(setManifestPointerOp(store, pointer), countManifestChangeOp(deps.store.system));
      }
      const bytes = Buffer.byteLength(text) + Buffer.byteLength(comment);
      await writeStored(store, { kind: "manifests", bytes }, deps.settings.tenantStoredBytes, ops);
      deps.cards.keep(key, row, checked);
      if (makeActive) await forgetEverywhere(name, context);
      audit("manifest_published", name, principal, { version: row.version, active: makeActive }, context);
      return versionView(key, row);
    },

    async canary({ store }, { name, version, weight, principal }, context) {
      const pointer = await pointerOf(store, name);
      if (!(await manifestVersion(store, name, version)))
        throw new SvcError("unknown_version", { detail: `Unknown canary version: ${name}@${version}` });
      const next = { ...stamped(pointer, principal, context), canary_version: version, canary_weight: weight };
      return move(store, next, "manifest_canary_set", { version, weight }, principal, context);
    },

    async clearCanary({ store }, { name, principal }, context) {
      const pointer = await pointerOf(store, name);
      const next = { ...stamped(pointer, principal, context), canary_version: null, canary_weight: 0 };
      return move(store, next, "manifest_canary_cleared", {}, principal, context);
    },

    async judge({ store }, judged, context) {
      const { deps } = context;
      const found = await judge(store, judged, deps);
      if (found === null) return { anomaly: false };
      const { canaryOf, payload } = found;
      deps.metrics.count("svc_anomaly_detected_total", { kind: canaryOf === null ? "rate" : "canary" });
      if (canaryOf === null) audit("anomaly_detected", judged.name, scanner, payload, context, "error");
      else {
        const next = { ...stamped(canaryOf, scanner, context), canary_version: null, canary_weight: 0 };
        await move(store, next, "manifest_canary_rolled_back", payload, scanner, context);
      }
      return { anomaly: true };
    },

    tools: async (_state, { name }, context) => ({
      servers: await remoteServers(await agentOf(name, context), context),
    }),

    async approveTools({ store }, { name, server, tools, principal }, context) {
      const agent = await agentOf(name, context);
      const approved = await approveRemoteTools(store, agent, server, tools, principal.sub, context);
      await forgetEverywhere(name, context);
      audit("mcp_tools_approved", name, principal, { server, tools: approved }, context);
      return { servers: await remoteServers(agent, context) };
    },

    async plan({ store }, { name, manifest }, context) {
      const { deps } = context;
      const agent = await checkedManifest(JSON.parse(manifest), name, context);
      const active = await activeManifest(name, context);
      const plan = planOf(agent, active?.manifest ?? null);
      // A tenant's own text is not masked, apart from values in the form of a credential.
      const masking = active === null || active.source === "store" ? deps.mask.forms : deps.mask.sent;
      const { digest } = plan;
      const threads_stopped = await countMovedPins(store, name, digest);
      return { plan: JSON.stringify(masking.value(plan)), threads_stopped };
    },

    async policyTest({ store }, { name, manifest, ...asked }, context) {
      const agent =
        manifest === null ? await agentOf(name, context) : await checkedManifest(JSON.parse(manifest), name, context);
      return testPolicies(store, agent, { name, ...asked }, context.env);
    },

    async releasePins({ store }, { name, suffix, principal }, context) {
      const [rows = []] = await store.write([releasePinsOp(store, name, suffix)], requestMs);
      const payload = { threads: rows.length, ...(suffix !== null && { thread_id: `${context.key}:${suffix}` }) };
      if (rows.length > 0) audit("manifest_pins_released", name, principal, payload, context);
      return { released: rows.length };
    },

    async rollback({ store }, { name, version, comment, principal }, context) {
      await pointerOf(store, name);
      if (!(await manifestVersion(store, name, version))) throw new SvcError("not_found");
      const next = pointerTo(name, version, principal, context);
      return move(store, next, "manifest_rolled_back", { version, comment }, principal, context);
    },
  },
});

/** Returns the manifest that a request would get now; null if there is none of this name. */
async function activeManifest(name: string, { key, deps }: Context) {
  try {
    return await deps.manifests.find(key, name, null);
  } catch (error) {
    const { code } = SvcError.from(error);
    if (code === "unknown_manifest" || code === "invalid_manifest") return null;
    throw error;
  }
}

/** Compiles a manifest before it is stored. Refuses with invalid_manifest or name_mismatch. */
async function checkedManifest(manifest: unknown, name: string, { key, deps, env }: Context): Promise<CompiledAgent> {
  try {
    const parsed = parseManifest(manifest);
    if (parsed.metadata.name !== name) {
      const message = `metadata.name is ${parsed.metadata.name}, but the path has ${name}: they must be the same.`;
      throw new SvcError("name_mismatch", { message });
    }
    // The largest manifest takes about ten milliseconds for each step, so yield in between.
    await breathe(env);
    return await deps.manifests.check(parsed, key);
  } catch (error) {
    throw await deps.manifests.refusal(error, key);
  }
}

/** Returns the first problems of the manifest that a request would get; null if it is valid. */
async function problemsOf(
  tenantId: string,
  name: string,
  { manifests, mask }: ManifestsDeps,
): Promise<readonly string[] | null> {
  try {
    await manifests.compiled(await manifests.find(tenantId, name, null), tenantId);
    return null;
  } catch (thrown) {
    const error = await manifests.refusal(thrown, tenantId);
    // A manifest deleted since the listing has no problems, and an unavailable store says nothing about the file.
    if (!(error instanceof SvcError) || error.code !== "invalid_manifest") return null;
    return problemLines(error)
      .slice(0, listedProblemsMax)
      .map((line) => mask.sent.text(line));
  }
}

/** Returns a pointer to a version without a canary: activating a version clears the canary. */
function pointerTo(name: string, version: number, principal: Principal, { env }: Context): ManifestPointerRow {
  return {
    name,
    version,
    canary_version: null,
    canary_weight: 0,
    updated_at: env.now(),
    updated_by: principal.sub,
  };
}

function stamped(pointer: ManifestPointerRow, principal: Pick<Principal, "sub">, { env }: Context): ManifestPointerRow {
  return { ...pointer, updated_at: env.now(), updated_by: principal.sub };
}

async function pointerOf(store: TenantStore, name: string): Promise<ManifestPointerRow> {
  const pointer = await manifestPointer(store, name);
  if (!pointer) throw new SvcError("not_found");
  return pointer;
}

/** Stores the pointer, and returns when every node uses it. */
async function move(
  store: TenantStore,
  pointer: ManifestPointerRow,
  event_type: AuditType,
  payload: Readonly<Record<string, unknown>>,
  principal: Pick<Principal, "sub">,
  context: Context,
): Promise<ManifestPointerView> {
  const { system } = context.deps.store;
  await store.write([setManifestPointerOp(store, pointer), countManifestChangeOp(system)], requestMs);
  await forgetEverywhere(pointer.name, context);
  audit(event_type, pointer.name, principal, payload, context);
  return pointerView(context.key, pointer);
}

/** Returns the agent that a request without a thread would get. Refuses with unknown_manifest and invalid_manifest. */
function agentOf(name: string, { key, deps }: Context): Promise<CompiledAgent> {
  return deps.manifests.resolve(key, name, null);
}

/** An unknown and an invalid manifest have no skills. */
function asNotFound(error: unknown): never {
  const { code } = SvcError.from(error);
  throw code === "unknown_manifest" || code === "invalid_manifest" ? new SvcError("not_found") : error;
}

async function forgetEverywhere(name: string, { key, bus }: Context): Promise<void> {
  const message = { tenant_id: key, name };
  await Promise.all(
    bus.actorNodes.map((node) =>
      bus.ask(nodeAddress(node), "forgetManifest", message).catch((error: unknown) => {
        // A lost node has no cache any more.
        if (!(error instanceof SvcError) || error.code !== "actor_lost") throw error;
      }),
    ),
  );
}

function audit(
  event_type: AuditType,
  name: string,
  principal: Pick<Principal, "sub">,
  payload: Readonly<Record<string, unknown>>,
  { deps, key, bus }: Context,
  status = "ok",
): void {
  tellNews(bus, key, () => ({ kind: "manifest", name }));
  deps.audit.record(key, { event_type, status, manifest_id: name, principal_subj: principal.sub, payload });
}

function pointerView(tenant_id: string, row: ManifestPointerRow): ManifestPointerView {
  return { tenant_id, ...row, source: "store" };
}

function versionView(tenant_id: string, row: ManifestVersionRow): ManifestVersionView {
  const { digest: _digest, ...rest } = row;
  return { tenant_id, ...rest };
}
