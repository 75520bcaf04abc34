import { SvcError } from "../../../bus/errors.ts";
import { entryPointOf } from "../../../bus/frames/entry-points.ts";
import { offered } from "../../../bus/nearest.ts";
import type { ResponseAsked, SubmitTurn } from "../../../bus/protocol/run.ts";
import type { ThinkingLevel } from "../../../bus/protocol/thinking.ts";
import type { TurnOptions } from "../../../bus/protocol/turn-options.ts";
import { isAnonymous } from "../../../governance/auth/anonymous.ts";
import { admit } from "../../../governance/auth/inbound.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { ModelRoute } from "../../../manifests/registries.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import type { DurableAsked } from "../../../storage/tables/run-columns.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { type Thinking, thinkingOf } from "../../models/thinking.ts";
import type { RunDeps } from "../context/deps.ts";
import { manifestOf } from "../event-log/side-log.ts";
import { asideAgent } from "../spec/aside-agent.ts";

/**
 * Adds the manifest to a turn. A continuation or a compaction without one, and every side question, uses the thread's last manifest.
 * Refuses with unknown_thread.
 */
export function withManifest(turn: SubmitTurn, store: TenantStore): SubmitTurn | Promise<SubmitTurn> {
  const { thread_suffix: suffix, side_of } = turn;
  if (side_of !== undefined) return sideTurn(turn, store, side_of);
  if (suffix === null || turn.parent) return turn;
  const needsManifest = entryPointOf(turn.surface).work !== "turn" && turn.manifest === "";
  return needsManifest ? withLastManifest(turn, store, suffix) : turn;
}

async function sideTurn(turn: SubmitTurn, store: TenantStore, suffix: string): Promise<SubmitTurn> {
  return { ...turn, manifest: await manifestOf(store, suffix) };
}

async function withLastManifest(turn: SubmitTurn, store: TenantStore, suffix: string): Promise<SubmitTurn> {
  const row = await threadBySuffix(store, suffix);
  return { ...turn, manifest: row?.manifest ?? "" };
}

/**
 * Returns the agent if the caller may use it. Refuses with manifest_required, unknown_manifest, invalid_manifest, the refusals of
 * spec.auth.inbound and peer_hop_limit, in this order. A caller without credentials gets unauthorized instead of unknown_manifest or invalid_manifest.
 */
export function admitCaller(turn: AskedAgent, deps: RunDeps): CompiledAgent | Promise<CompiledAgent> {
  if (turn.manifest.trim() === "") throw new SvcError("manifest_required");
  if (turn.evaluation !== undefined && turn.parent === undefined) return evaluated(turn, turn.evaluation.body, deps);
  const known = deps.manifests.known(turn.principal.tenant_id, turn.manifest);
  return known === null ? resolve(turn, deps).then((agent) => admitted(turn, agent)) : admitted(turn, known);
}

/** The agent that a caller asks for. */
type AskedAgent = Pick<
  SubmitTurn,
  "principal" | "manifest" | "thread_suffix" | "side_of" | "parent" | "hops" | "evaluation"
>;

/** Returns the agent that an evaluation has stored. */
async function evaluated(turn: AskedAgent, digest: string, deps: RunDeps): Promise<CompiledAgent> {
  const agent = await deps.manifests.kept(deps.store.tenant(turn.principal.tenant_id), digest);
  if (agent === undefined) throw new SvcError("unknown_manifest", { subject: turn.manifest });
  return admitted(turn, agent);
}

function admitted(turn: AskedAgent, agent: CompiledAgent): CompiledAgent {
  admit(turn.principal, agent.inbound);
  // A task is bound by the limits of the agent that hands it out.
  if (turn.parent === undefined && (turn.hops ?? 0) > agent.limits.max_peer_hops) throw new SvcError("peer_hop_limit");
  return turn.side_of === undefined ? agent : asideAgent(agent);
}

async function resolve(turn: AskedAgent, deps: RunDeps): Promise<CompiledAgent> {
  const { principal, manifest, thread_suffix, side_of } = turn;
  try {
    return await deps.manifests.resolve(principal.tenant_id, manifest, side_of ?? thread_suffix);
  } catch (error) {
    const { code } = SvcError.from(error);
    const tellsWhatIsThere = code === "unknown_manifest" || code === "invalid_manifest";
    // A caller without credentials must not learn which manifests exist.
    if (tellsWhatIsThere && isAnonymous(principal))
      throw new SvcError("unauthorized", { reason: "missing_credentials" });
    throw code === "unknown_manifest" ? await withNames(SvcError.from(error), turn, deps) : error;
  }
}

/** Adds similar manifest names to the refusal, from the list that GET /v1/models shows to this caller. */
async function withNames(refused: SvcError, { principal, manifest }: AskedAgent, deps: RunDeps): Promise<SvcError> {
  try {
    const names = (await deps.manifests.list(principal.tenant_id)).map(({ name }) => name);
    const message = `There is no manifest of this name.${offered(manifest, names)}`;
    return new SvcError("unknown_manifest", { ...refused.details, message });
  } catch {
    // The names are optional; the refusal is still correct without them.
    return refused;
  }
}

/**
 * Returns the models of a turn: the requested one or the manifest's own, then the fallbacks. Refuses with model_not_allowlisted, and with
 * model_not_configured if the provider of the first model is not configured. A single call needs no model.
 */
export function admitModel(turn: SubmitTurn, agent: CompiledAgent, deps: RunDeps): readonly ModelRoute[] {
  const route = turn.model === null ? agent.model.route : deps.models.routes.get(turn.model);
  if (!route || (turn.model !== null && !mayOverride(route, agent)))
    throw new SvcError("model_not_allowlisted", {
      subject: turn.model ?? "",
      message: `This manifest may not use a model of this name.${offered(turn.model ?? "", modelsOf(agent, deps))}`,
    });
  if (turn.call === undefined) deps.models.provider(route);
  return [route, ...agent.model.fallbacks.filter((fallback) => fallback.id !== route.id)];
}

/** Ids of the models that a turn may request: allowed by the manifest, with a configured provider. */
function modelsOf(agent: CompiledAgent, { models }: RunDeps): readonly string[] {
  const callable = [...models.routes.values()].filter(
    (route) => mayOverride(route, agent) && isCallable(route, models),
  );
  return callable.map(({ id }) => id);
}

/** True if the provider of the route is configured. */
function isCallable(route: ModelRoute, models: RunDeps["models"]): boolean {
  try {
    models.provider(route);
    return true;
  } catch {
    return false;
  }
}

/**
 * Returns the routes of a turn that take images. If the first route takes none, the vision route replaces it. Refuses with unsupported_part
 * without a vision route, and with model_not_configured if the provider of the vision route is not configured.
 */
export function routesThatSee(
  routes: readonly ModelRoute[],
  agent: CompiledAgent,
  { models, metrics }: RunDeps,
): readonly ModelRoute[] {
  const seeing = routes.filter(takesImages);
  const [first] = routes;
  if (first === undefined || first === seeing[0]) return seeing;
  const { vision } = agent.model;
  if (vision === null) throw new SvcError("unsupported_part");
  models.provider(vision);
  metrics.count("svc_model_switch_total", { from: first.id, to: vision.id, reason: "vision" });
  return [vision, ...seeing.filter(({ id }) => id !== vision.id)];
}

/** True if the models of this route take images. */
export function takesImages({ modalities }: ModelRoute): boolean {
  return modalities.includes("image");
}

/** Decision 18: a model override passes the same checks as the manifest's own model. */
function mayOverride(route: ModelRoute, agent: CompiledAgent): boolean {
  if (agent.outboundProviders.length > 0 && !agent.outboundProviders.includes(route.provider)) return false;
  const capped = agent.manifest.spec.limits.max_cost_usd !== null;
  return !capped || route.price !== null || route.id === agent.model.route.id;
}

/**
 * Refuses with invalid_request if a stop text is blank and a model of the turn rejects blank ones. Otherwise a fallback could fail in
 * mid-turn.
 */
export function admitStops(options: TurnOptions | null, routes: readonly ModelRoute[], { models }: RunDeps): void {
  if (options === null || options.stop.every((text) => text.trim() !== "")) return;
  const refusing = routes.find((route) => isCallable(route, models) && models.provider(route).refusesBlankStops);
  if (refusing === undefined) return;
  const msg = `must not be blank for ${refusing.id}: Anthropic's models refuse a stop text of white space`;
  throw new SvcError("invalid_request", { detail: [{ loc: ["body", "stop"], msg, type: "value_error" }] });
}

/** Max output tokens of the turn. A request can lower the manifest's bound but not raise it. */
export function admitMaxTokens(turn: SubmitTurn, agent: CompiledAgent): number | null {
  if (turn.max_tokens === null) return agent.model.max_tokens;
  return agent.model.max_tokens === null ? turn.max_tokens : Math.min(turn.max_tokens, agent.model.max_tokens);
}

/** The thinking of the model calls. The thread's level overrides the manifest's, and a level overrides a budget. */
export function thinkingFor({ model }: CompiledAgent, level: ThinkingLevel | null): Thinking | null {
  return thinkingOf(level ?? model.thinking_level, model.thinking_budget);
}

/** Returns the options of a durable run; null if the turn is not durable. */
export function durableAsked(
  { durable }: CompiledAgent,
  {
    surface,
    parent,
    response = null,
  }: Pick<SubmitTurn, "surface" | "parent"> & { readonly response?: ResponseAsked | null },
  { hibernateAfterSeconds }: RunDeps["settings"],
): DurableAsked | null {
  const ofAgent = durable?.ttlSeconds ?? hibernateAfterSeconds;
  // A task sends no webhooks: its end is reported to the parent run or the thread.
  if (parent?.background !== undefined || parent?.durable !== undefined) return { ttl_ms: ofAgent * 1_000 };
  const { durable: mayBe, sendsWebhooks } = entryPointOf(surface);
  const isAlways = mayBe === "always" || response?.background === true;
  if (!isAlways && (durable === null || mayBe === "never")) return null;
  const webhooks = sendsWebhooks ? (durable?.webhooks ?? []) : [];
  return { ttl_ms: ofAgent * 1_000, ...(webhooks.length > 0 && { webhooks }) };
}
