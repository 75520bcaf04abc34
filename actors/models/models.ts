import type { ModelRoute } from "../../manifests/registries.ts";
import type { ModelProvider } from "./provider.ts";

/** The models that this process can call. */
export interface Models {
  /** By logical id, in the order of the data file, with the operator's own routes in front. */
  readonly routes: ReadonlyMap<string, ModelRoute>;
  /** What a manifest without a model gets. */
  readonly defaultModelId: string;
  /** The provider of a route. Refuses with model_not_configured when no credential is set for it. */
  provider(route: ModelRoute): ModelProvider;
}
