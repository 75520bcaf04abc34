import type { ModelProviderName } from "../../governance/settings/model-options.ts";
import { commonRules, type ProviderRules } from "./chat-rules.ts";
import type { HttpProviderConfig } from "./http-provider.ts";

/** The address of a hosted provider, and its deviations from the common protocol. */
export interface BuiltInProvider {
  /** The URL before /chat/completions; null if it depends on the account. */
  readonly baseUrl: string | null;
  readonly maxTokensField: HttpProviderConfig["maxTokensField"];
  readonly asksForUsage: boolean;
  readonly rules: ProviderRules;
}

/**
 * The OpenAI-compatible endpoints of the hosted providers, from their documentation. All of them accept the key as a bearer
 * token.
 */
export const builtInProviders: Readonly<Record<ModelProviderName, BuiltInProvider>> = {
  // OpenAI's reasoning models refuse max_tokens.
  openai: {
    ...hosted("https://api.openai.com/v1"),
    maxTokensField: "max_completion_tokens",
    rules: { ...commonRules, callIds: "forty" },
  },
  anthropic: hosted("https://api.anthropic.com/v1"),
  workers_ai: hosted(null),
  groq: hosted("https://api.groq.com/openai/v1"),
  together: hosted("https://api.together.xyz/v1"),
  deepseek: hosted("https://api.deepseek.com/v1"),
  cerebras: hosted("https://api.cerebras.ai/v1"),
  fireworks: hosted("https://api.fireworks.ai/inference/v1"),
  openrouter: hosted("https://openrouter.ai/api/v1"),
  xai: hosted("https://api.x.ai/v1"),
  // Mistral always sends usage, and refuses stream_options.include_usage with 422.
  mistral: {
    ...hosted("https://api.mistral.ai/v1"),
    asksForUsage: false,
    rules: { ...commonRules, callIds: "nine", bridgesResults: true, namesUsers: false },
  },
  google: {
    ...hosted("https://generativelanguage.googleapis.com/v1beta/openai"),
    rules: { ...commonRules, signsCalls: true },
  },
};

function hosted(baseUrl: string | null): BuiltInProvider {
  return { baseUrl, maxTokensField: "max_tokens", asksForUsage: true, rules: commonRules };
}

/** Returns the endpoint of Workers AI for an account, directly or through one of its AI gateways. */
export function workersAiUrl(accountId: string, gatewayId: string | undefined): string {
  const account = encodeURIComponent(accountId);
  return gatewayId === undefined
    ? `https://api.cloudflare.com/client/v4/accounts/${account}/ai/v1`
    : `https://gateway.ai.cloudflare.com/v1/${account}/${encodeURIComponent(gatewayId)}/workers-ai/v1`;
}
