import type { ModelProviderName } from "../../governance/settings/model-options.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { DeploymentEmbedder } from "../../governance/vectors/unit-vectors.ts";
import { builtInProviders, workersAiUrl } from "./built-in-providers.ts";
import type { Models } from "./models.ts";

/** Returns the embedder that SVC_MEMORY_EMBEDDER selects; null for none. */
export function embedderOf(settings: Settings, models: Pick<Models, "memoryEmbedding">): DeploymentEmbedder | null {
  const { memoryEmbedding: route } = models;
  if (route === null) return null;
  const url = embedderUrl(settings, models);
  return {
    name: route.id,
    model: `${route.provider}/${route.model}`,
    dimensions: settings.memoryEmbeddingDim,
    host: url === null ? null : (URL.parse(url)?.host ?? null),
    seesImages: route.modalities.includes("image"),
  };
}

/** Returns the address that receives the texts of documents and memories; null if none does, or the provider of a plugin. */
export function embedderUrl(
  { litellmBaseUrl, modelProviders, modelProviderOptions }: Settings,
  { memoryEmbedding }: Pick<Models, "memoryEmbedding">,
): string | null {
  if (memoryEmbedding === null) return null;
  const { provider } = memoryEmbedding;
  const options = Object.hasOwn(modelProviderOptions, provider) ? modelProviderOptions[provider] : undefined;
  const builtIn = Object.hasOwn(builtInProviders, provider) ? builtInProviders[provider as ModelProviderName] : null;
  const own = Object.hasOwn(modelProviders, provider) ? modelProviders[provider]?.base_url : undefined;
  if (own !== undefined) return own;
  if (builtIn === null) return null;
  const { base_url, account_id = "", gateway_id } = options ?? {};
  return litellmBaseUrl || base_url || (builtIn.baseUrl ?? workersAiUrl(account_id, gateway_id));
}
