import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { ResponseControl } from "../../governance/egress/connection.ts";
import type { Egress } from "../../governance/egress/egress.ts";
import { type EgressFailure, egressFailure } from "../../governance/egress/failure.ts";
import { readTarget, type Target } from "../../governance/egress/target.ts";
import { type ModelProviderName, modelProviders } from "../../governance/settings/model-options.ts";
import { providerKeyNames } from "../../governance/settings/provider-keys.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import { anthropicVersion } from "./anthropic-provider.ts";
import { builtInProviders } from "./built-in-providers.ts";
import { isConfigured, keyOf, wireConfigOf } from "./create-models.ts";
import { ownWireConfig } from "./own-providers.ts";
import type { ProviderDeps } from "./provider-definition.ts";
import type { Looked, WireConfig } from "./wire-provider.ts";

/** The result of a free call to one provider, without its key. */
export interface ProbedProvider {
  readonly name: string;
  /** `unsure`: the provider responds, but the response does not show whether the key is valid. */
  readonly status: "ok" | "unsure" | "refused" | "unreachable";
  readonly detail: string;
}

/** A provider to check. */
interface Probe {
  readonly name: string;
  readonly config: WireConfig;
  readonly kind: "openai" | "anthropic";
  /** A free list request that requires a valid key, if the provider has one. */
  readonly url: string;
  /** The setting that contains the key. */
  readonly setting: string;
}

type Answer = { readonly status: number } | { readonly failure: EgressFailure; readonly cause: string };

/** Longer than a handshake around the world, and short enough for a user to wait. */
const probeMs = 5_000;

/** Requests the list of models from each provider with a key or address, in parallel. */
export function probeProviders(deps: ProviderDeps): Promise<readonly ProbedProvider[]> {
  return Promise.all(probesOf(deps).map((probe) => tryProvider(probe, deps)));
}

/** Returns the address of each provider with a key or address, and the setting with its key. */
export function providerAddresses(deps: ProviderDeps): readonly Pick<Probe, "name" | "url" | "setting">[] {
  return probesOf(deps).map(({ name, url, setting }) => ({ name, url, setting }));
}

function probesOf(deps: ProviderDeps): readonly Probe[] {
  const { settings } = deps;
  const gateway = settings.litellmBaseUrl !== "";
  const withKey = modelProviders.filter((name) => keyOf(name, settings) !== undefined);
  // A gateway without keys is checked once, because the result for one provider is the same for all.
  const built = gateway
    ? withKey.length > 0
      ? withKey
      : modelProviders.slice(0, 1)
    : modelProviders.filter((name) => isConfigured(name, settings));
  return [
    ...built.map((name): Probe => {
      const config = wireConfigOf(name, deps);
      return {
        name: gateway && withKey.length === 0 ? "gateway" : name,
        config,
        kind: name === "anthropic" && !gateway ? "anthropic" : "openai",
        url: listUrl(name, config.baseUrl),
        setting: keySetting(name, settings),
      };
    }),
    ...Object.entries(settings.modelProviders).map(([name, own]): Probe => {
      const field = own.api_key === undefined ? "headers" : "api_key";
      const config = ownWireConfig(name, own, deps);
      const url = `${config.baseUrl}/models`;
      return { name, config, kind: own.kind, url, setting: `${field} of ${name} in SVC_MODEL_PROVIDERS` };
    }),
  ];
}

function listUrl(name: ModelProviderName, baseUrl: string): string {
  const base = baseUrl.replace(/\/+$/, "");
  // OpenRouter lists its models without checking the key.
  if (name === "openrouter" && base === builtInProviders.openrouter.baseUrl) return `${base}/key`;
  // Workers AI lists models outside the OpenAI-compatible path.
  const account = name === "workers_ai" ? /^(https:\/\/api\.cloudflare\.com\/.*\/ai)\/v1$/.exec(base)?.[1] : undefined;
  return account === undefined ? `${base}/models` : `${account}/models/search?per_page=1`;
}

function keySetting(name: ModelProviderName, { modelProviderOptions, fromEnvironment }: Settings): string {
  if (modelProviderOptions[name]?.api_key !== undefined) return `api_key of ${name} in SVC_MODEL_PROVIDER_OPTIONS`;
  const names = providerKeyNames(name);
  return names.find((known) => fromEnvironment.includes(known)) ?? names.join(" or ");
}

async function tryProvider(probe: Probe, { env, egress }: ProviderDeps): Promise<ProbedProvider> {
  const { name, url, setting } = probe;
  let headers: string[];
  try {
    headers = await headersOf(probe);
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    return { name, status: "refused", detail: `${error.message} See ${setting}.` };
  }
  return { name, ...toldAnswer(await ask(readTarget(url), headers, env, egress), probe) };
}

async function headersOf({ config: { apiKey, headers = [] }, kind }: Probe): Promise<string[]> {
  const found = async (value: Looked): Promise<string> => (typeof value === "function" ? await value() : value);
  const key = apiKey === null ? null : await found(apiKey);
  const ofKey = key === null ? [] : kind === "anthropic" ? ["x-api-key", key] : ["authorization", `Bearer ${key}`];
  const version = kind === "anthropic" ? ["anthropic-version", anthropicVersion] : [];
  const own = await Promise.all(headers.map(async ([name, value]) => [name, await found(value)]));
  const agent = headers.some(([name]) => name === "user-agent") ? [] : ["user-agent", "svc"];
  return ["accept", "application/json", ...agent, ...version, ...ofKey, ...own.flat()];
}

/** Returns the status of the response, without reading its body, or the failure. */
function ask(target: Target, headers: string[], env: Env, egress: Egress): Promise<Answer> {
  return new Promise((resolve) => {
    let control: ResponseControl | null = null;
    const settle = (answer: Answer): void => {
      timer.cancel();
      resolve(answer);
      control?.abort();
    };
    const fail = (error: unknown): void => settle({ failure: egressFailure(error), cause: causeOf(error) });
    const timer = env.timer(probeMs, () => settle({ failure: "no_connection", cause: "" }));
    try {
      egress.dispatch(
        target,
        { method: "GET", headers, body: null, silenceMs: probeMs },
        {
          onRequestStart(controller) {
            control = controller;
          },
          onResponseStart: ({ status }) => settle({ status }),
          onResponseData() {},
          onResponseEnd() {},
          onResponseError: fail,
        },
      );
    } catch (error) {
      fail(error);
    }
  });
}

/** Returns the network error: a code, or a text without headers. */
function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const first = error instanceof AggregateError ? error.errors[0] : error;
  return first instanceof Error ? first.message || String((first as NodeJS.ErrnoException).code ?? first.name) : "";
}

function toldAnswer(answer: Answer, { name, config, url, setting }: Probe): Omit<ProbedProvider, "name"> {
  if ("failure" in answer) return { status: "unreachable", detail: `${url} ${whyUnreachable(answer)}` };
  const { status } = answer;
  const hasKey = config.apiKey !== null || (config.headers ?? []).length > 0;
  if (status >= 200 && status < 300)
    return { status: "ok", detail: hasKey ? `${url} takes the key` : `${url} answers, and was given no key` };
  // Google answers a wrong key with 400.
  if (status === 401 || status === 403 || (status === 400 && name === "google"))
    return {
      status: "refused",
      detail: `${url} answers ${status}: ${hasKey ? "it does not take the key" : "it asks for a key"}; see ${setting}`,
    };
  if (status === 404 || status === 405)
    return { status: "unsure", detail: `${url} answers ${status}: it lists no models, or its base_url is another` };
  if (status >= 300 && status < 400)
    return { status: "unsure", detail: `${url} answers ${status}, which leads elsewhere and is not followed` };
  return { status: "unsure", detail: `${url} answers ${status}, which says nothing of the key; try again later` };
}

function whyUnreachable({ failure, cause }: Extract<Answer, { readonly failure: EgressFailure }>): string {
  switch (failure) {
    case "blocked":
      return "is a destination that svc connects to for nobody";
    case "unsendable":
      return "cannot be asked: a key or a header has a character that no header can carry";
    case "no_connection":
    case "silent_head":
    case "silent_body":
      return `does not answer within ${probeMs / 1000} seconds`;
    default:
      return `does not answer: ${cause}`;
  }
}
