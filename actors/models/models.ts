import type { DecisionRoute, EmbeddingRoute, ModelRoute } from "../../manifests/registries.ts";
import type { Embedder } from "./embedder.ts";
import type { ModelProvider } from "./provider.ts";

/** The models that this process can call. */
export interface Models {
  /** By logical id, in the order of the data file, with the operator's own routes in front. */
  readonly routes: ReadonlyMap<string, ModelRoute>;
  /** The deciders, by their ids. */
  readonly decisions: ReadonlyMap<string, DecisionRoute>;
  /** What a manifest without a model gets. */
  readonly defaultModelId: string;
  /** The provider of a route. Refuses with model_not_configured when no credential is set for it. */
  provider(route: ModelRoute): ModelProvider;
  /** Those that make vectors of texts, by logical id. No manifest can name one for its model. */
  readonly embeddings: ReadonlyMap<string, EmbeddingRoute>;
  /** The one that tells how like two texts are; null where words are compared. */
  readonly memoryEmbedding: EmbeddingRoute | null;
  /** What makes the vectors of a route. Refuses with model_not_configured when no credential is set for it. */
  embedder(route: EmbeddingRoute): Embedder;
}
