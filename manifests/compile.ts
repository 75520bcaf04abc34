import { digestJson } from "./canonical-json.ts";
import type { CompiledAgent, CompiledPolicy, CompiledPrompt, RunLimits, SessionStrategy } from "./compiled.ts";
import { matchAnyGlob, matchGlob } from "./glob.ts";
import { promptKeys } from "./object-keys.ts";
import { type Path, type ProblemType, refuseProblems, writePath } from "./problems.ts";
import { isCommandName } from "./prompts.ts";
import type { ModelPrice, ModelRoute, Registries, ToolSpec } from "./registries.ts";
import { limitBounds } from "./schema/execution.ts";
import type { Manifest, ManifestSpec } from "./schema/manifest.ts";
import { promptPartCharsMax } from "./schema/prompts.ts";
import { assembleSystemPrompt } from "./system-prompt.ts";
import { unbuiltProblems } from "./unbuilt.ts";

/** Whose manifest it is and what goes with it. */
export interface CompileSource {
  readonly tenantId: string;
  /** The tenant store's version number, null for manifests of the operator. */
  readonly version: number | null;
  /** Texts by object key, of the keys that neededTexts names. */
  readonly texts: ReadonlyMap<string, string>;
}

/** Makes a parsed manifest ready to run. Throws invalid_manifest with every field that cannot be honoured. */
export function compile(manifest: Manifest, registries: Registries, source: CompileSource): CompiledAgent {
  const { spec, metadata } = manifest;
  const problems = unbuiltProblems(manifest);
  const refuse: Refuse = (loc, says, type) => problems.push({ loc, msg: `${writePath(loc)} ${says}.`, type });

  const tools = bindTools(spec, registries, refuse);
  const toolNames = tools.map((tool) => tool.name);
  const model = compileModel(spec, registries, refuse);
  const files = spec.system_prompt.system_md === null ? readFiles(spec, source, refuse) : [];
  const prompts = compilePrompts(spec, source, refuse);
  if (spec.workspace.scope === "deployment" && !registries.workspaceDeploymentTenants.includes(source.tenantId))
    refuse(
      ["spec", "workspace", "scope"],
      "can be deployment for the tenants that the operator lists only",
      "conflict",
    );
  refuseProblems(problems);

  const policies = spec.policies.map((policy) => compilePolicy(policy, toolNames));
  return {
    name: metadata.name,
    version: source.version,
    digest: digestJson(manifest),
    manifest,
    systemPrompt: assembleSystemPrompt(manifest, source.tenantId, source.texts, files, toolNames),
    prompts,
    tools,
    model: model as CompiledAgent["model"],
    session: compileStrategy(spec.session.strategy),
    limits: compileLimits(spec.limits),
    recursion_limit: spec.recursion_limit,
    parallelTools: spec.execution.tools === "parallel",
    policies,
    workspaceScope: spec.workspace.scope,
    inbound: spec.auth.inbound,
    outboundProviders: spec.auth.outbound.providers,
    metrics: spec.observability.metrics,
    emptyRules: [...emptyGuidance(spec, toolNames), ...emptyPolicies(spec, toolNames)],
  };
}

type Refuse = (loc: Path, says: string, type: ProblemType) => void;

/** The named tools in their order, each once. */
function bindTools(spec: ManifestSpec, { tools }: Registries, refuse: Refuse): ToolSpec[] {
  const bound = new Map<string, ToolSpec>();
  for (const [at, name] of spec.tools.entries()) {
    const tool = tools.get(name);
    if (tool === undefined) refuse(["spec", "tools", at], `names the tool ${name}, which is not there`, "unresolved");
    else bound.set(name, tool);
  }
  return [...bound.values()];
}

function compileModel(spec: ManifestSpec, registries: Registries, refuse: Refuse): CompiledAgent["model"] | null {
  const { id, fallbacks, temperature, max_tokens, price } = spec.model;
  const own = findRoute(id ?? registries.defaultModelId, ["spec", "model", "id"], registries, refuse);
  const others = fallbacks.map((fallback, at) =>
    findRoute(fallback, ["spec", "model", "fallbacks", at], registries, refuse),
  );
  for (const [at, route] of [own, ...others].entries()) {
    if (route === null) continue;
    const loc: Path = at === 0 ? ["spec", "model", "id"] : ["spec", "model", "fallbacks", at - 1];
    checkProvider(spec, route, loc, refuse);
    checkRates(spec, route, at === 0 && Object.keys(price).length > 0, loc, refuse);
  }
  if (own === null) return null;
  return {
    route: own,
    fallbacks: others.filter((route) => route !== null),
    temperature,
    max_tokens,
    price: mergePrice(spec, own, refuse),
  };
}

function findRoute(id: string, loc: Path, { routes }: Registries, refuse: Refuse): ModelRoute | null {
  const route = routes.get(id);
  if (route === undefined) refuse(loc, `leads to the model route ${id}, which is not there`, "unresolved");
  return route ?? null;
}

function checkProvider(spec: ManifestSpec, route: ModelRoute, loc: Path, refuse: Refuse): void {
  const allowed = spec.auth.outbound.providers;
  if (allowed.length === 0 || allowed.includes(route.provider)) return;
  refuse(loc, `leads to the provider ${route.provider}, which spec.auth.outbound.providers does not list`, "conflict");
}

/** A declared cap on cost means nothing on a route whose calls cannot be priced. */
function checkRates(spec: ManifestSpec, route: ModelRoute, priced: boolean, loc: Path, refuse: Refuse): void {
  if (spec.limits.max_cost_usd === null || route.price !== null || priced) return;
  const says = `cannot be held: ${writePath(loc)} leads to the route ${route.id}, whose rates are not known`;
  refuse(["spec", "limits", "max_cost_usd"], says, "conflict");
}

/** The manifest's rates over the route's. Without rates of the route, input and output must be given; the cache costs as input. */
function mergePrice(spec: ManifestSpec, route: ModelRoute, refuse: Refuse): ModelPrice | null {
  const { price } = spec.model;
  if (Object.keys(price).length === 0) return route.price;
  if (route.price !== null) return { ...route.price, ...price };
  const { input, output } = price;
  for (const key of ["input", "output"] as const)
    if (price[key] === undefined)
      refuse(
        ["spec", "model", "price", key],
        `is required: the rates of the route ${route.id} are not known`,
        "missing",
      );
  if (input === undefined || output === undefined) return null;
  return { input, output, cache_read: input, cache_write: input, ...price };
}

function readFiles(spec: ManifestSpec, source: CompileSource, refuse: Refuse): string[] {
  return spec.system_prompt.files.map((file, at) =>
    readFile(file, ["spec", "system_prompt", "files", at], source, refuse),
  );
}

function readFile(file: string, loc: Path, { tenantId, texts }: CompileSource, refuse: Refuse): string {
  const key = promptKeys(tenantId, file).find((candidate) => texts.has(candidate));
  const text = key === undefined ? undefined : texts.get(key);
  if (text === undefined) refuse(loc, `names the object ${file}, which is not there`, "unresolved");
  else if (text.length > promptPartCharsMax)
    refuse(loc, `names an object of more than ${promptPartCharsMax} characters`, "too_long");
  return text ?? "";
}

function compilePrompts(spec: ManifestSpec, source: CompileSource, refuse: Refuse): Map<string, CompiledPrompt> {
  const prompts = new Map<string, CompiledPrompt>();
  for (const [at, { name, body, file, description, argument_hint }] of spec.prompts.entries()) {
    const fromFile = body === "" && file !== null;
    prompts.set(name.toLowerCase(), {
      name,
      body: fromFile ? readFile(file, ["spec", "prompts", at, "file"], source, refuse) : body,
      description,
      argument_hint,
      command: isCommandName(name),
    });
  }
  return prompts;
}

function compileStrategy(strategy: string): SessionStrategy {
  const [kind, messages] = strategy.split(":");
  return kind === "windowed" ? { kind, messages: Number(messages) } : { kind: "full_replay" };
}

function compileLimits(limits: ManifestSpec["limits"]): RunLimits {
  return {
    max_tool_calls: limits.max_tool_calls ?? limitBounds.max_tool_calls.unset,
    max_wall_clock_seconds: limits.max_wall_clock_seconds ?? limitBounds.max_wall_clock_seconds.unset,
    max_peer_hops: limits.max_peer_hops ?? limitBounds.max_peer_hops.unset,
    max_input_tokens: limits.max_input_tokens ?? limitBounds.max_input_tokens.unset,
    max_output_tokens: limits.max_output_tokens ?? limitBounds.max_output_tokens.unset,
    max_cost_usd: limits.max_cost_usd ?? limitBounds.max_cost_usd.unset,
  };
}

function compilePolicy(policy: ManifestSpec["policies"][number], tools: readonly string[]): CompiledPolicy {
  return {
    id: policy.id,
    required_scopes: policy.required_scopes,
    tools: new Set(tools.filter((tool) => matchAnyGlob(policy.tools, tool))),
  };
}

function emptyGuidance(spec: ManifestSpec, tools: readonly string[]): CompiledAgent["emptyRules"] {
  return Object.keys(spec.tool_guidance)
    .filter((key) => !tools.some((tool) => matchGlob(key, tool)))
    .map((rule) => ({ rule, kind: "tool_guidance" }));
}

function emptyPolicies(spec: ManifestSpec, tools: readonly string[]): CompiledAgent["emptyRules"] {
  return spec.policies.flatMap((policy) =>
    policy.tools
      .filter((glob) => !tools.some((tool) => matchGlob(glob, tool)))
      .map((glob) => ({ rule: `${policy.id}: ${glob}`, kind: "policy" })),
  );
}
