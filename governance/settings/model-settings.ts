import { type DecisionOverride, readDecisionRoutes } from "./decision-options.ts";
import { type ProviderOptions, type RouteOverride, readModelRoutes, readProviderOptions } from "./model-options.ts";
import { type OwnProvider, readOwnProviders } from "./own-providers.ts";
import { bool, int, json, optionalPath, seconds, text, url } from "./setting.ts";

/** Settings of models and their providers. provider-keys.ts reads the providers' keys. */
export const modelSettings = {
  defaultModelId: text("DEFAULT_MODEL_ID", "", "The model route of manifests that name none.", {
    defaultWords: "the first route whose provider has a credential, else demo",
  }),
  defaultVisionModelId: text(
    "DEFAULT_VISION_MODEL_ID",
    "",
    "The model route of turns with an image, if the manifest's model accepts only text and spec.model.vision_model is null.",
  ),
  demoModel: bool("DEMO_MODEL", false, "Enables the built-in offline model `demo`; never in production."),
  modelRoutes: json<Readonly<Record<string, RouteOverride>>>(
    "MODEL_ROUTES",
    {},
    "Model routes: map of logical id to {provider, model, modalities?, context_window?, max_output_tokens?, tools_max?, parameters?, price?}, in addition to the built-in routes; with kind: embedding to {provider, model, modalities?, price?}.",
    readModelRoutes,
  ),
  decisionRoutes: json<Readonly<Record<string, DecisionOverride>>>(
    "DECISION_ROUTES",
    {},
    "Deciders: map of id to {provider, model, price?}, in addition to the built-in ones; the provider is workers_ai, typesafe or llm.",
    readDecisionRoutes,
  ),
  modelProviderOptions: json<Readonly<Record<string, ProviderOptions>>>(
    "MODEL_PROVIDER_OPTIONS",
    {},
    "Options of providers: map of provider to {base_url?, api_key?, timeout?}; workers_ai also {account_id?, gateway_id?}.",
    readProviderOptions,
    { secret: true },
  ),
  modelProviders: json<Readonly<Record<string, OwnProvider>>>(
    "MODEL_PROVIDERS",
    {},
    "Your own providers: map of name to {base_url, api_key?, headers?, kind?: openai or anthropic, timeout?}.",
    readOwnProviders,
    { secret: true },
  ),
  memoryEmbedder: text(
    "MEMORY_EMBEDDER",
    "auto",
    "Embeds documents, memories and the messages of `semantic:N`: an embedding route, a provider that has one, sentence_transformers (a model in this process), auto (the first route, else sentence_transformers if it is installed with a model) or none (by words).",
  ),
  memoryEmbeddingModel: text(
    "MEMORY_EMBEDDING_MODEL",
    "bge-base-en-v1.5",
    "The model of sentence_transformers: a folder in SVC_MEMORY_MODEL_DIR.",
    { pattern: /^[\w.-]+(?:\/[\w.-]+)?$/, reason: "must be the name of a model" },
  ),
  memoryEmbeddingDim: dimensions(),
  memoryModelDir: optionalPath("MEMORY_MODEL_DIR", "The folder with the models of sentence_transformers."),
  memoryModelDownload: bool(
    "MEMORY_MODEL_DOWNLOAD",
    false,
    "Whether sentence_transformers downloads a model that SVC_MEMORY_MODEL_DIR lacks.",
  ),
  litellmBaseUrl: url("LITELLM_BASE_URL", "A local gateway for all model calls."),
  modelTimeoutSeconds: seconds(
    "MODEL_TIMEOUT_SECONDS",
    120,
    [0.001, 3600],
    "Maximum time without a byte from a model provider.",
  ),
};

/** SQLite stores one bit for each number of a vector, in whole bytes. */
function dimensions() {
  const setting = int(
    "MEMORY_EMBEDDING_DIM",
    768,
    [8, 8192],
    "Dimensions of stored vectors, a multiple of 8. After a change run `svc embeddings rebuild`.",
  );
  const read = (value: string): number => {
    const number = setting.read(value);
    if (number % 8 !== 0) throw new Error("must be a multiple of 8");
    return number;
  };
  return { ...setting, read };
}
