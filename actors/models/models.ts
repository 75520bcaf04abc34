import type { DecisionRoute, EmbeddingRoute, ModelRoute } from "../../manifests/registries.ts";
import type { Embedder } from "./embedder.ts";
import type { ModelProvider } from "./provider.ts";

/** The models that this process can call. */
export interface Models {
  /** By logical id: the operator's routes, then the built-in ones. */
  readonly routes: ReadonlyMap<string, ModelRoute>;
  /** The deciders, by id. */
  readonly decisions: ReadonlyMap<string, DecisionRoute>;
  /** The model of a manifest that names none. */
  readonly defaultModelId: string;
  /** True if an image in a turn of an agent without a model of its own reaches a model that takes it. */
  readonly seesImages: boolean;
  /** Returns the provider of a route. Refuses with model_not_configured if it has no credential. */
  provider(route: ModelRoute): ModelProvider;
  /** Returns the name of a secret that the route's provider needs and that has no value now; null for none. */
  missingSecret(route: ModelRoute): string | null;
  /** The embedding routes, by logical id. Manifests cannot use them as their model. */
  readonly embeddings: ReadonlyMap<string, EmbeddingRoute>;
  /** The embedding route that ranks messages by similarity; null if words are compared. */
  readonly memoryEmbedding: EmbeddingRoute | null;
  /** Returns the embedder of a route. Refuses with model_not_configured if it has no credential. */
  embedder(route: EmbeddingRoute): Embedder;
}
