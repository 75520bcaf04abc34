import type { OwnProvider } from "../../governance/settings/own-providers.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import { anthropicProvider } from "./anthropic-provider.ts";
import { httpEmbedder } from "./http-embedder.ts";
import { httpProvider } from "./http-provider.ts";
import type { ProviderDefinition, ProviderDeps } from "./provider-definition.ts";
import type { Looked, WireConfig } from "./wire-provider.ts";

/** Returns the providers of SVC_MODEL_PROVIDERS, as definitions like those of plugins. */
export function ownProviders({ modelProviders }: Settings): readonly ProviderDefinition[] {
  return Object.entries(modelProviders).map(([name, own]): ProviderDefinition => {
    if (own.kind === "anthropic")
      return { name, open: (deps) => anthropicProvider(ownWireConfig(name, own, deps), deps.env, deps.egress) };
    return {
      name,
      // Self-hosted servers may know only the older name.
      open: (deps) =>
        httpProvider(
          { ...ownWireConfig(name, own, deps), maxTokensField: "max_tokens", asksForUsage: true },
          deps.env,
          deps.egress,
        ),
      openEmbedder: (deps) => httpEmbedder(ownWireConfig(name, own, deps), deps.env, deps.egress),
    };
  });
}

/** Returns the address and credentials of a provider in SVC_MODEL_PROVIDERS. */
export function ownWireConfig(
  name: string,
  { base_url, api_key, headers, timeout }: OwnProvider,
  { settings, secrets, mask }: ProviderDeps,
): WireConfig {
  const looked = (text: string): Looked => (text.startsWith("secret:") ? () => secrets.resolve(text) : text);
  return {
    name,
    baseUrl: base_url,
    apiKey: api_key === undefined ? null : looked(api_key),
    headers: Object.entries(headers).map(([header, text]) => [header, looked(text)] as const),
    timeoutMs: (timeout ?? settings.modelTimeoutSeconds) * 1000,
    mask,
  };
}
