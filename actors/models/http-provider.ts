import type { Env } from "../../bus/env.ts";
import type { ThinkingLevel } from "../../bus/protocol/thinking.ts";
import type { Egress } from "../../governance/egress/egress.ts";
import { ChunkReader } from "./chunk-reader.ts";
import type { ModelFailure, ModelProvider, ModelRequest } from "./provider.ts";
import { type WireConfig, type WireProtocol, wireProvider } from "./wire-provider.ts";

/** A hosted provider behind its OpenAI-compatible endpoint. The key is sent as a bearer token. */
export interface HttpProviderConfig extends WireConfig {
  /** What this provider calls the bound on output tokens. */
  readonly maxTokensField: "max_tokens" | "max_completion_tokens";
  /** Whether usage comes only when it is asked for. Others refuse to be asked. */
  readonly asksForUsage: boolean;
}

/** Calls a provider over HTTP, through the given egress. */
export function httpProvider(config: HttpProviderConfig, env: Env, egress: Egress): ModelProvider {
  return wireProvider(config, chatCompletions(config), env, egress);
}

/** What a model takes. */
interface Taken {
  readonly temperature: boolean;
  readonly effort: boolean;
}

const everything: Taken = { temperature: true, effort: true };

function chatCompletions(config: HttpProviderConfig): WireProtocol {
  /** What wire models have refused to be given. */
  const taken = new Map<string, Taken>();
  return {
    path: "/chat/completions",
    headers: (apiKey) => (apiKey === null ? [] : ["authorization", `Bearer ${apiKey}`]),
    begin(request, events) {
      const { model, parameters } = request.route;
      let takes = taken.get(model) ?? everything;
      if (parameters?.includes("temperature") === false) takes = { ...takes, temperature: false };
      return {
        reader: new ChunkReader(events),
        body: () => requestBody(config, request, takes),
        adapt(failure) {
          const fewer = withoutRefused(takes, request, failure);
          if (fewer === null) return false;
          takes = fewer;
          taken.set(model, fewer);
          return true;
        },
        goesOn: () => false,
      };
    },
  };
}

/**
 * Without what the provider will not have for this model, null when it is not that. Models that reason refuse a temperature: 0, which
 * every manifest has that does not say otherwise, is then left out; a manifest that asks for another one is told the refusal. Models
 * that do not reason refuse an effort.
 */
function withoutRefused(takes: Taken, request: ModelRequest, { status, message }: ModelFailure): Taken | null {
  if (status !== 400 && status !== 422) return null;
  if (takes.effort && request.thinking !== null && /reasoning/i.test(message)) return { ...takes, effort: false };
  if (takes.temperature && request.temperature === 0 && /temperature/i.test(message))
    return { ...takes, temperature: false };
  return null;
}

/** What a level of thinking is called; it ends at high. */
const efforts: Readonly<Record<ThinkingLevel, string>> = {
  off: "none",
  minimal: "low",
  low: "low",
  medium: "medium",
  high: "high",
  xhigh: "high",
  max: "high",
};

function requestBody(config: HttpProviderConfig, request: ModelRequest, takes: Taken): string {
  let body = `{"model":${JSON.stringify(request.route.model)},"messages":${request.messages},"stream":true`;
  if (config.asksForUsage) body += `,"stream_options":{"include_usage":true}`;
  if (takes.temperature || request.temperature !== 0) body += `,"temperature":${request.temperature}`;
  const bound = request.max_tokens === null ? null : maxTokensField(config, request.route);
  if (bound !== null) body += `,"${bound}":${request.max_tokens}`;
  if (takes.effort && request.thinking !== null) body += `,"reasoning_effort":"${efforts[request.thinking.level]}"`;
  if (request.tools !== null) body += `,"tools":${request.tools}`;
  return `${body}}`;
}

/** What this model calls the bound on output; null when it takes none. */
function maxTokensField(config: HttpProviderConfig, { parameters }: ModelRequest["route"]): string | null {
  if (parameters === null) return config.maxTokensField;
  return parameters.find((name) => name !== "temperature") ?? null;
}
