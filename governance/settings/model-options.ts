import { type ModelParameter, type ModelPrice, modelParameters } from "../../manifests/registries.ts";
import { readIntegerField, readMap, readNumberField, readObject, readString, readStrings } from "./object-shape.ts";
import { readHttpUrl } from "./setting.ts";

/** The built-in hosted providers. A route that names an unknown provider stops the boot. */
export const modelProviders = [
  "openai",
  "anthropic",
  "workers_ai",
  "groq",
  "together",
  "deepseek",
  "cerebras",
  "fireworks",
  "openrouter",
  "xai",
  "mistral",
  "google",
] as const;

/** The name of a built-in provider. */
export type ModelProviderName = (typeof modelProviders)[number];

/** The task of a route's model: chat, or embeddings. */
export type RouteKind = (typeof routeKinds)[number];
const routeKinds = ["chat", "embedding"] as const;

/** All hosted providers that have a key: the model providers, and one that only makes decisions. */
export const keyedProviders = [...modelProviders, "typesafe"] as const;

/** The name of a provider with a key. */
export type KeyedProviderName = (typeof keyedProviders)[number];

/**
 * A route as SVC_MODEL_ROUTES defines it, under its logical id. Absent fields keep the values of the built-in route, if there is
 * one.
 */
export interface RouteOverride {
  readonly provider: string;
  readonly model: string;
  /** The default is `chat`. A route of kind `embedding` has modalities and a price, and no other figures. */
  readonly kind?: RouteKind;
  readonly modalities?: readonly ("text" | "image")[];
  /** In tokens. */
  readonly context_window?: number;
  /** Max output tokens of one call. */
  readonly max_output_tokens?: number;
  /** Max tools of one call. */
  readonly tools_max?: number;
  readonly parameters?: readonly ModelParameter[];
  readonly price?: ModelPrice;
}

/** Connection options of one provider; absent fields keep the provider's defaults. */
export interface ProviderOptions {
  readonly base_url?: string;
  /** A literal key, or secret:NAME. */
  readonly api_key?: string;
  /** Seconds; overrides SVC_MODEL_TIMEOUT_SECONDS. */
  readonly timeout?: number;
  /** For workers_ai only. */
  readonly account_id?: string;
  readonly gateway_id?: string;
}

const usdPerMillionMax = 100_000;

const figuresOf: Readonly<Record<RouteKind, readonly string[]>> = {
  chat: ["modalities", "context_window", "max_output_tokens", "tools_max", "parameters", "price"],
  embedding: ["modalities", "price"],
};

/** Reads SVC_MODEL_ROUTES: a map of logical id to {provider, model, kind?} and the figures of such a route. */
export function readModelRoutes(document: unknown): Readonly<Record<string, RouteOverride>> {
  return mapEntries(document, (value, where) => {
    const kind = readKind(value, where);
    const route = readObject(value, where, ["provider", "model"], ["kind", ...figuresOf[kind]]);
    const target = {
      provider: readString(route.provider, `${where}: provider`),
      model: readString(route.model, `${where}: model`),
    };
    const modalities = route.modalities !== undefined && { modalities: readModalities(route.modalities, where) };
    if (kind === "embedding")
      return {
        ...{ ...target, kind, ...modalities },
        ...(route.price !== undefined && { price: readInputPrice(route.price, where) }),
      };
    return {
      ...target,
      ...modalities,
      ...(route.context_window !== undefined && {
        context_window: readIntegerField(route.context_window, `${where}: context_window`, 1024, 1e9),
      }),
      ...(route.max_output_tokens !== undefined && {
        max_output_tokens: readIntegerField(route.max_output_tokens, `${where}: max_output_tokens`, 1, 1e9),
      }),
      ...(route.tools_max !== undefined && {
        tools_max: readIntegerField(route.tools_max, `${where}: tools_max`, 1, 10_000),
      }),
      ...(route.parameters !== undefined && { parameters: readParameters(route.parameters, where) }),
      ...(route.price !== undefined && { price: readPrice(route.price, where) }),
    };
  });
}

function readKind(value: unknown, where: string): RouteKind {
  const kind = typeof value === "object" && value !== null && "kind" in value ? value.kind : "chat";
  const found = routeKinds.find((known) => known === kind);
  if (found === undefined) throw new Error(`${where}: kind is one of ${routeKinds.join(", ")}`);
  return found;
}

function readModalities(value: unknown, where: string): readonly ("text" | "image")[] {
  const words = readStrings(value, `${where}: modalities`);
  if (!words.includes("text") || words.some((word) => word !== "text" && word !== "image")) {
    throw new Error(`${where}: modalities are ["text"] or ["text", "image"]`);
  }
  return words as ("text" | "image")[];
}

function readParameters(value: unknown, where: string): readonly ModelParameter[] {
  const words = readStrings(value, `${where}: parameters`);
  const known: readonly string[] = modelParameters;
  if (words.some((word) => !known.includes(word))) throw new Error(`${where}: parameters are of ${known.join(", ")}`);
  if (words.includes("max_tokens") && words.includes("max_completion_tokens")) {
    throw new Error(`${where}: parameters has one of max_tokens and max_completion_tokens`);
  }
  return words as ModelParameter[];
}

/** Reads the rates of a model. Cached tokens without a rate cost as much as uncached ones, so that a price is never too low. */
export function readPrice(value: unknown, where: string): ModelPrice {
  const price = readObject(value, `${where}: price`, ["input", "output"], ["cache_read", "cache_write"]);
  const rate = (key: string): number => readNumberField(price[key], `${where}: price.${key}`, 0, usdPerMillionMax);
  const input = rate("input");
  return {
    input,
    output: rate("output"),
    cache_read: price.cache_read === undefined ? input : rate("cache_read"),
    cache_write: price.cache_write === undefined ? input : rate("cache_write"),
  };
}

/** Reads the rates of an embedding model. Output is free and nothing is cached. */
function readInputPrice(value: unknown, where: string): ModelPrice {
  const price = readObject(value, `${where}: price`, ["input"], []);
  const input = readNumberField(price.input, `${where}: price.input`, 0, usdPerMillionMax);
  return { input, output: 0, cache_read: input, cache_write: input };
}

/** Reads SVC_MODEL_PROVIDER_OPTIONS: a map of provider to {base_url?, api_key?, timeout?, account_id?, gateway_id?}. */
export function readProviderOptions(document: unknown): Readonly<Record<string, ProviderOptions>> {
  return mapEntries(document, (value, where, provider) => {
    const workersAi = provider === "workers_ai" ? ["account_id", "gateway_id"] : [];
    const options = readObject(value, where, [], ["base_url", "api_key", "timeout", ...workersAi]);
    const text = (key: string): string => readString(options[key], `${where}: ${key}`);
    return {
      ...(options.base_url !== undefined && { base_url: readBaseUrl(text("base_url"), where) }),
      ...(options.api_key !== undefined && { api_key: text("api_key") }),
      ...(options.timeout !== undefined && {
        timeout: readNumberField(options.timeout, `${where}: timeout`, 0.001, 3600),
      }),
      ...(options.account_id !== undefined && { account_id: text("account_id") }),
      ...(options.gateway_id !== undefined && { gateway_id: text("gateway_id") }),
    };
  });
}

function readBaseUrl(value: string, where: string): string {
  try {
    return readHttpUrl(value);
  } catch (error) {
    throw new Error(`${where}: base_url ${(error as Error).message}`);
  }
}

/** Reads a map of ids to entries; `read` parses each entry. */
export function mapEntries<T>(
  document: unknown,
  read: (value: unknown, where: string, key: string) => T,
): Record<string, T> {
  return Object.fromEntries(
    Object.entries(readMap(document, "the value")).map(([key, value], index) => {
      if (!/^[\w.:@/-]{1,128}$/.test(key)) {
        throw new Error(`entry ${index + 1}: an id has 1 to 128 letters, digits, . _ : @ / and -`);
      }
      return [key, read(value, key, key)];
    }),
  );
}
