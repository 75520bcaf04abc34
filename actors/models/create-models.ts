import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { Egress } from "../../governance/egress/egress.ts";
import { egressRouteOf } from "../../governance/egress/route.ts";
import { SecretMask, Secrets } from "../../governance/secret-mask.ts";
import { decisionProviders } from "../../governance/settings/decision-options.ts";
import {
  type KeyedProviderName,
  keyedProviders,
  type ModelProviderName,
  modelProviders,
  type ProviderOptions,
} from "../../governance/settings/model-options.ts";
import { credentialsOf, type OwnProvider } from "../../governance/settings/own-providers.ts";
import { providerKeyNames } from "../../governance/settings/provider-keys.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import { SettingsError } from "../../governance/settings/settings-error.ts";
import type { EmbeddingRoute, ModelRoute } from "../../manifests/registries.ts";
import { anthropicProvider } from "./anthropic-provider.ts";
import { builtInProviders, workersAiUrl } from "./built-in-providers.ts";
import { builtInRoutes, demoRoute, unknownFigures } from "./built-in-routes.ts";
import { commonRules } from "./chat-rules.ts";
import { deciderProvider } from "./decider.ts";
import { decisionAddress, decisionProvider } from "./decision-provider.ts";
import { decisionRoutes } from "./decision-routes.ts";
import { demoProvider } from "./demo.ts";
import type { Embedder } from "./embedder.ts";
import { httpEmbedder } from "./http-embedder.ts";
import { httpProvider } from "./http-provider.ts";
import { localEmbedder, localEmbedderName, localEmbeddingRoute, localModelsAreInstalled } from "./local-embedder.ts";
import type { Models } from "./models.ts";
import { ownProviders } from "./own-providers.ts";
import type { ModelProvider } from "./provider.ts";
import type { ProviderDefinition, ProviderDeps } from "./provider-definition.ts";
import type { WireConfig } from "./wire-provider.ts";

/**
 * Creates the models that the settings and plugins define. `mask` learns keys that are read from files. Throws a SettingsError
 * for contradictory settings or unknown names.
 */
export function createModels(
  settings: Settings,
  env: Env,
  mask = new SecretMask(settings.secretValues),
  ofPlugins: readonly ProviderDefinition[] = [],
): Models {
  const own = [...ownProviders(settings), ...ofPlugins];
  const known = [...modelProviders, ...own.map(({ name }) => name)];
  const withoutChat = own.flatMap(({ name, open }) => (open ? [] : [name]));
  checkNames(settings, ofPlugins);
  checkOptions(settings, [...keyedProviders, ...ofPlugins.map(({ name }) => name)]);
  const routes = new Map(allRoutes(settings, known, withoutChat).map((route) => [route.id, route]));
  const defaultModelId = pickDefault(settings, routes, own);
  if (demoAllowed(settings) && (settings.demoModel || defaultModelId === demoRoute.id)) {
    routes.set(demoRoute.id, demoRoute);
  }
  if (!routes.has(defaultModelId)) {
    throw refusal("SVC_DEFAULT_MODEL_ID", `names no model route; known are ${[...routes.keys()].join(", ")}`);
  }
  checkVision(settings, routes);
  const embeddings = new Map(embeddingRoutes(settings, own).map((route) => [route.id, route]));
  const deciding = [...decisionProviders, ...ofPlugins.flatMap(({ name, openDecider }) => (openDecider ? [name] : []))];
  const decisions = decisionRoutes(settings.decisionRoutes, { routes, deciding, defaultModelId }, (reason) =>
    refusal("SVC_DECISION_ROUTES", reason),
  );
  const secrets = new Secrets(settings, mask);
  // Only operators configure addresses of models.
  const egress = new Egress("operator", undefined, env, egressRouteOf(settings));
  const providers = new Map<string, ModelProvider>();
  if (routes.has(demoRoute.id)) providers.set(demoRoute.provider, demoProvider(env));
  const embedders = new Map<string, Embedder>();
  const deps: ProviderDeps = { settings, env, secrets, mask, egress };
  return {
    routes,
    decisions,
    defaultModelId,
    seesImages:
      settings.defaultVisionModelId !== "" || routes.get(defaultModelId)?.modalities.includes("image") === true,
    embeddings,
    memoryEmbedding: pickMemoryEmbedding(settings, embeddings, own),
    embedder({ provider: name }) {
      let embedder = embedders.get(name);
      if (embedder === undefined) {
        const defined = own.find((definition) => definition.name === name);
        embedder =
          name === localEmbedderName
            ? localEmbedder(settings, env)
            : (defined?.openEmbedder?.({ ...deps, options: optionsOf(name, settings) }) ??
              httpEmbedder(wireConfigOf(name, deps), env, egress));
        embedders.set(name, embedder);
      }
      return embedder;
    },
    provider(route) {
      // A decision model has its own address.
      const name = route.decides ? `${route.provider} ${route.model}` : route.provider;
      let provider = providers.get(name);
      if (provider === undefined) {
        provider = openDefined(route, own, deps) ?? openProvider(route, deps);
        providers.set(name, provider);
      }
      return provider;
    },
    missingSecret({ provider: name }) {
      const missing = keysOf(name, settings).find((text) => secrets.find(text) === null);
      return missing?.slice("secret:".length) ?? null;
    },
  };
}

/** Opens the provider of a plugin or of SVC_MODEL_PROVIDERS; undefined if the route has another one. */
function openDefined(
  { provider: name, decides }: ModelRoute,
  own: readonly ProviderDefinition[],
  deps: ProviderDeps,
): ModelProvider | undefined {
  const defined = own.find((definition) => definition.name === name);
  const given = { ...deps, options: optionsOf(name, deps.settings) };
  if (!decides) return defined?.open?.(given);
  const decider = defined?.openDecider?.(given);
  return decider && deciderProvider(name, decider);
}

/** Returns the default model and its provider as text for the log. */
export function describeDefault(settings: Settings, env: Env, own: readonly ProviderDefinition[] = []): string {
  const { routes, defaultModelId } = createModels(settings, env, undefined, own);
  const { id, provider } = routes.get(defaultModelId) as ModelRoute;
  if (provider === demoRoute.provider) {
    return `${id} (offline; set OPENAI_API_KEY, ANTHROPIC_API_KEY or the key of another provider)`;
  }
  if (Object.hasOwn(settings.modelProviders, provider)) return `${id} (${provider}, of SVC_MODEL_PROVIDERS)`;
  if (own.some(({ name }) => name === provider)) return `${id} (${provider}, of a plugin)`;
  if (settings.litellmBaseUrl !== "") return `${id} (${provider}, through the gateway of SVC_LITELLM_BASE_URL)`;
  if (isConfigured(provider, settings)) return `${id} (${provider})`;
  return `${id} (${provider}, which has no credential: turns answer model_not_configured; set ${missingSetting(provider, settings)})`;
}

/** Returns the operator's routes in order, then the built-in ones that they do not replace. */
function allRoutes(settings: Settings, known: readonly string[], withoutChat: readonly string[]): ModelRoute[] {
  const builtIn = new Map(builtInRoutes.map((route) => [route.id, route]));
  const own = Object.entries(settings.modelRoutes).flatMap(([id, given]): ModelRoute[] => {
    if (id === demoRoute.id)
      throw refusal("SVC_MODEL_ROUTES", `${id}: this is the built-in offline model; use another id`);
    if (!known.includes(given.provider)) {
      throw refusal("SVC_MODEL_ROUTES", `${id}: names an unknown provider; known are ${known.join(", ")}`);
    }
    const figures = builtIn.get(id) ?? unknownFigures;
    builtIn.delete(id);
    if (given.kind === "embedding") return [];
    if (withoutChat.includes(given.provider))
      throw refusal("SVC_MODEL_ROUTES", `${id}: ${given.provider} has no chat models`);
    const route = {
      id,
      provider: given.provider,
      model: given.model,
      modalities: given.modalities ?? figures.modalities,
      context_window: given.context_window ?? figures.context_window,
      max_output_tokens: given.max_output_tokens ?? figures.max_output_tokens,
      tools_max: given.tools_max ?? figures.tools_max,
      parameters: given.parameters ?? figures.parameters,
      price: given.price ?? figures.price,
    };
    return [route];
  });
  return [...own, ...builtIn.values()];
}

/** Returns the embedding routes; none is built in. Throws a SettingsError for a provider without embeddings. */
function embeddingRoutes(settings: Settings, own: readonly ProviderDefinition[]): EmbeddingRoute[] {
  return Object.entries(settings.modelRoutes).flatMap(([id, given]) => {
    const { kind, provider, model, modalities = ["text"], price = null } = given;
    if (kind !== "embedding") return [];
    const defined = own.find(({ name }) => name === provider);
    const makesNone = defined ? !defined.openEmbedder : provider === "anthropic" && settings.litellmBaseUrl === "";
    if (makesNone) throw refusal("SVC_MODEL_ROUTES", `${id}: ${provider} has no embeddings`);
    return [{ id, provider, model, modalities, price }];
  });
}

/**
 * Returns the embedding route for SVC_MEMORY_EMBEDDER. `auto` selects the first usable one, else the local model if its package
 * and its folder are there.
 */
function pickMemoryEmbedding(
  settings: Settings,
  embeddings: ReadonlyMap<string, EmbeddingRoute>,
  own: readonly ProviderDefinition[],
): EmbeddingRoute | null {
  const { memoryEmbedder: wanted } = settings;
  if (wanted === "none") return null;
  const all = [...embeddings.values()];
  const isOwn = (provider: string): boolean => own.some(({ name }) => name === provider);
  if (wanted === "auto") {
    const usable = all.find(({ provider }) => isOwn(provider) || isConfigured(provider, settings));
    if (usable !== undefined) return usable;
    return settings.memoryModelDir !== null && localModelsAreInstalled() ? localEmbeddingRoute(settings) : null;
  }
  const found = embeddings.get(wanted) ?? all.find(({ provider }) => provider === wanted);
  if (found !== undefined) return found;
  if (wanted === localEmbedderName) {
    if (!localModelsAreInstalled())
      throw refusal(
        "SVC_MEMORY_EMBEDDER",
        "sentence_transformers needs the package @huggingface/transformers, which npm installs",
      );
    if (settings.memoryModelDir === null)
      throw refusal("SVC_MEMORY_EMBEDDER", "sentence_transformers needs SVC_MEMORY_MODEL_DIR, the folder of its model");
    return localEmbeddingRoute(settings);
  }
  const known =
    all.length === 0 ? "there is none in SVC_MODEL_ROUTES" : `known are ${all.map(({ id }) => id).join(", ")}`;
  throw refusal("SVC_MEMORY_EMBEDDER", `names neither an embedding route nor a provider with one; ${known}`);
}

/**
 * Returns the default model (decision 6): the operator's setting, else the first route with a credential, else the offline
 * model.
 */
function pickDefault(
  settings: Settings,
  routes: ReadonlyMap<string, ModelRoute>,
  own: readonly ProviderDefinition[],
): string {
  if (settings.defaultModelId !== "") return settings.defaultModelId;
  const all = [...routes.values()];
  const isOwn = (provider: string): boolean => own.some(({ name }) => name === provider);
  const callable = all.find(({ provider }) => isOwn(provider) || isConfigured(provider, settings));
  if (callable !== undefined) return callable.id;
  return demoAllowed(settings) ? demoRoute.id : (all[0] as ModelRoute).id;
}

function checkVision({ defaultVisionModelId: id }: Settings, routes: ReadonlyMap<string, ModelRoute>): void {
  if (id === "") return;
  const route = routes.get(id);
  if (route === undefined)
    throw refusal("SVC_DEFAULT_VISION_MODEL_ID", `names no model route; known are ${[...routes.keys()].join(", ")}`);
  if (!route.modalities.includes("image"))
    throw refusal("SVC_DEFAULT_VISION_MODEL_ID", `names ${id}, which takes no images`);
}

function demoAllowed({ environment }: Settings): boolean {
  return environment !== "production";
}

function checkNames({ modelProviders }: Settings, ofPlugins: readonly ProviderDefinition[]): void {
  const twice = ofPlugins.find(({ name }) => Object.hasOwn(modelProviders, name));
  if (twice) throw refusal("SVC_MODEL_PROVIDERS", `${twice.name} is the name of a plugin's provider; choose another`);
}

function checkOptions({ modelProviderOptions, modelProviders: own }: Settings, known: readonly string[]): void {
  for (const [name, options] of Object.entries(modelProviderOptions)) {
    const refuse = (reason: string) => refusal("SVC_MODEL_PROVIDER_OPTIONS", `${name}: ${reason}`);
    if (Object.hasOwn(own, name)) throw refuse("is declared in SVC_MODEL_PROVIDERS; set its options there");
    if (!known.includes(name)) throw refuse(`is an unknown provider; known are ${known.join(", ")}`);
    if (options.gateway_id !== undefined && options.account_id === undefined)
      throw refuse("gateway_id needs account_id");
    if (options.base_url !== undefined && options.account_id !== undefined) {
      throw refuse("base_url and account_id exclude each other; give one of them");
    }
  }
}

/** True if a route of this provider can be called: its address is known, and its key too unless the operator set the address. */
export function isConfigured(provider: string, settings: Settings): boolean {
  const { base_url, account_id } = optionsOf(provider, settings);
  if (settings.litellmBaseUrl !== "" || base_url !== undefined) return true;
  return keyOf(provider, settings) !== undefined && (provider !== "workers_ai" || account_id !== undefined);
}

/** Returns the setting that a built-in provider lacks. */
export function missingSetting(provider: string, settings: Settings): string {
  if (keyOf(provider, settings) === undefined) return providerKeyNames(provider as ModelProviderName)[0];
  return "its account_id in SVC_MODEL_PROVIDER_OPTIONS";
}

/** Returns the credentials and timeout for a provider. */
function callerOf(name: string, { settings, secrets, mask }: ProviderDeps): Omit<WireConfig, "baseUrl"> {
  const key = keyOf(name, settings);
  return {
    name,
    apiKey: key === undefined ? null : key.startsWith("secret:") ? () => secrets.resolve(key) : key,
    timeoutMs: (optionsOf(name, settings).timeout ?? settings.modelTimeoutSeconds) * 1000,
    mask,
  };
}

/** Returns the address and credentials of a built-in provider. Refuses with model_not_configured. */
export function wireConfigOf(name: string, deps: ProviderDeps): WireConfig {
  const { settings } = deps;
  if (!isProvider(name)) throw new SvcError("model_not_configured", { subject: name });
  if (!isConfigured(name, settings)) {
    const message = `No credential is configured for ${name}: the operator of this server sets ${missingSetting(name, settings)}.`;
    throw new SvcError("model_not_configured", { subject: name, message });
  }
  const { base_url, account_id = "", gateway_id } = optionsOf(name, settings);
  const ownUrl = settings.litellmBaseUrl || base_url;
  return {
    ...callerOf(name, deps),
    baseUrl: ownUrl ?? builtInProviders[name].baseUrl ?? workersAiUrl(account_id, gateway_id),
  };
}

function openProvider(route: ModelRoute, deps: ProviderDeps): ModelProvider {
  const { settings, env, egress } = deps;
  const { provider: name } = route;
  if (route.decides) {
    const address = isConfigured(name, settings)
      ? decisionAddress(route, optionsOf(name, settings), settings.litellmBaseUrl)
      : null;
    if (address === null) throw new SvcError("model_not_configured", { subject: name });
    return decisionProvider({ ...callerOf(name, deps), ...address }, env, egress);
  }
  const config = wireConfigOf(name, deps);
  const builtIn = builtInProviders[name as ModelProviderName];
  const gateway = settings.litellmBaseUrl;
  const ownUrl = gateway || optionsOf(name, settings).base_url;
  // A gateway uses the OpenAI protocol for all providers.
  if (name === "anthropic" && gateway === "") return anthropicProvider(config, env, egress);
  return httpProvider(
    {
      ...config,
      // Self-hosted servers may know only the older name.
      maxTokensField: ownUrl === undefined ? builtIn.maxTokensField : "max_tokens",
      asksForUsage: gateway !== "" || builtIn.asksForUsage,
      rules: gateway === "" ? builtIn.rules : commonRules,
    },
    env,
    egress,
  );
}

/** Returns the key as configured: a literal or secret:NAME. */
export function keyOf(provider: string, settings: Settings): string | undefined {
  return optionsOf(provider, settings).api_key ?? settings.providerApiKeys[provider as KeyedProviderName];
}

/** Returns the key and the header values of a provider as configured: literals or secret:NAME. */
function keysOf(provider: string, settings: Settings): readonly string[] {
  const { modelProviders } = settings;
  if (Object.hasOwn(modelProviders, provider)) return credentialsOf(modelProviders[provider] as OwnProvider);
  const key = keyOf(provider, settings);
  return key === undefined ? [] : [key];
}

function optionsOf(provider: string, { modelProviderOptions }: Settings): ProviderOptions {
  return Object.hasOwn(modelProviderOptions, provider) ? (modelProviderOptions[provider] as ProviderOptions) : {};
}

function isProvider(name: string): name is ModelProviderName {
  return (modelProviders as readonly string[]).includes(name);
}

function refusal(name: string, reason: string): SettingsError {
  return new SettingsError([{ name, reason }]);
}
