import type { ModelProviderName } from "../../governance/settings/model-options.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { DeploymentEmbedder } from "../../governance/vectors/unit-vectors.ts";
import { builtInProviders, workersAiUrl } from "./built-in-providers.ts";
import type { Models } from "./models.ts";

/** Returns the embedder that SVC_MEMORY_EMBEDDER selects; null for none. */
export function embedderOf(
  settings: Settings,
  { memoryEmbedding: route }: Pick<Models, "memoryEmbedding">,
): DeploymentEmbedder | null {
  if (route === null) return null;
  return {
    name: route.id,
    model: `${route.provider}/${route.model}`,
    dimensions: settings.memoryEmbeddingDim,
    host: hostOf(route.provider, settings),
  };
}

function hostOf(provider: string, { litellmBaseUrl, modelProviders, modelProviderOptions }: Settings): string | null {
  const options = Object.hasOwn(modelProviderOptions, provider) ? modelProviderOptions[provider] : undefined;
  const builtIn = Object.hasOwn(builtInProviders, provider) ? builtInProviders[provider as ModelProviderName] : null;
  const own = Object.hasOwn(modelProviders, provider) ? modelProviders[provider]?.base_url : undefined;
  const url =
    own ??
    (builtIn === null
      ? null
      : litellmBaseUrl ||
        options?.base_url ||
        (builtIn.baseUrl ?? workersAiUrl(options?.account_id ?? "", options?.gateway_id)));
  return url === null ? null : (URL.parse(url)?.host ?? null);
}
