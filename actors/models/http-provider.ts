import type { Env } from "../../bus/env.ts";
import type { Egress } from "../../governance/egress/egress.ts";
import { readTarget } from "../../governance/egress/target.ts";
import type { SecretMask } from "../../governance/secret-mask.ts";
import { addressPattern } from "./addresses.ts";
import { HttpCall } from "./http-call.ts";
import type { ModelFailure, ModelProvider, ModelRequest } from "./provider.ts";

/** A hosted provider behind its OpenAI-compatible endpoint. */
export interface HttpProviderConfig {
  readonly name: string;
  /** Up to and without /chat/completions. */
  readonly baseUrl: string;
  /** Sent as a bearer token. A function where it has to be looked up, which is then done for every call; null for none. */
  readonly apiKey: string | (() => Promise<string>) | null;
  /** The longest silence that is borne: before the first byte and between two. */
  readonly timeoutMs: number;
  /** What this provider calls the bound on output tokens. */
  readonly maxTokensField: "max_tokens" | "max_completion_tokens";
  /** Whether usage comes only when it is asked for. Others refuse to be asked. */
  readonly asksForUsage: boolean;
  /** Hides secrets in what the provider says. */
  readonly mask: SecretMask;
}

/** Calls a provider over HTTP, through the given egress. */
export function httpProvider(config: HttpProviderConfig, env: Env, egress: Egress): ModelProvider {
  const { apiKey, mask, timeoutMs } = config;
  const target = readTarget(`${config.baseUrl.replace(/\/+$/, "")}/chat/completions`);
  const addresses = addressPattern(target);
  const literalHeaders = apiKey === null || typeof apiKey === "string" ? headersWith(apiKey) : null;
  /** Wire models that have refused to be given a temperature. */
  const untempered = new Set<string>();

  return {
    name: config.name,
    start(request, events) {
      const { model } = request.route;
      const { parameters } = request.route;
      let tempered = !untempered.has(model) && (parameters?.includes("temperature") ?? true);
      let sentKey = typeof apiKey === "string" ? apiKey : "";
      // Providers repeat the key that they refuse, however short it is.
      const conceal = (words: string) =>
        mask.told.text(sentKey === "" ? words : words.replaceAll(sentKey, "[REDACTED]"));
      const call = new HttpCall(events, {
        env,
        discretion: { conceal, addresses },
        timeoutMs,
        sendDifferently(failure) {
          if (!tempered || request.temperature !== 0 || !refusesTemperature(failure)) return false;
          tempered = false;
          untempered.add(model);
          send();
          return true;
        },
      });
      const dispatch = (headers: string[]): void => {
        const withTemperature = tempered || request.temperature !== 0;
        const body = requestBody(config, request, withTemperature);
        egress.dispatch(target, { method: "POST", headers, body, silenceMs: timeoutMs }, call);
      };
      const send = (): void => {
        if (literalHeaders !== null) dispatch(literalHeaders);
        else if (typeof apiKey === "function")
          apiKey().then(
            (key) => {
              sentKey = key;
              dispatch(headersWith(key));
            },
            (error) => call.giveUp(error),
          );
      };
      send();
      return call;
    },
  };
}

function headersWith(apiKey: string | null): string[] {
  const headers = ["content-type", "application/json", "accept", "text/event-stream", "user-agent", "svc"];
  return apiKey === null ? headers : [...headers, "authorization", `Bearer ${apiKey}`];
}

/**
 * Whether the provider will not have a temperature for this model, as is the way of models that reason. 0, which every manifest
 * has that does not say otherwise, is then left out; a manifest that asks for another temperature is told the refusal.
 */
function refusesTemperature({ status, message }: ModelFailure): boolean {
  return (status === 400 || status === 422) && /temperature/i.test(message);
}

function requestBody(config: HttpProviderConfig, request: ModelRequest, withTemperature: boolean): string {
  let body = `{"model":${JSON.stringify(request.route.model)},"messages":${request.messages},"stream":true`;
  if (config.asksForUsage) body += `,"stream_options":{"include_usage":true}`;
  if (withTemperature) body += `,"temperature":${request.temperature}`;
  const bound = request.max_tokens === null ? null : maxTokensField(config, request.route);
  if (bound !== null) body += `,"${bound}":${request.max_tokens}`;
  if (request.tools !== null) body += `,"tools":${request.tools}`;
  return `${body}}`;
}

/** What this model calls the bound on output; null when it takes none. */
function maxTokensField(config: HttpProviderConfig, { parameters }: ModelRequest["route"]): string | null {
  if (parameters === null) return config.maxTokensField;
  return parameters.find((name) => name !== "temperature") ?? null;
}
