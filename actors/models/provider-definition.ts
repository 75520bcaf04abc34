import type { Env } from "../../bus/env.ts";
import type { Egress } from "../../governance/egress/egress.ts";
import type { SecretMask, Secrets } from "../../governance/secret-mask.ts";
import type { ProviderOptions } from "../../governance/settings/model-options.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { Decider } from "./decider.ts";
import type { Embedder } from "./embedder.ts";
import type { ModelProvider } from "./provider.ts";

/** Dependencies of a provider. */
export interface ProviderDeps {
  readonly settings: Settings;
  readonly env: Env;
  /** Resolves secret:NAME in options. */
  readonly secrets: Secrets;
  readonly mask: SecretMask;
  /** Opens the provider's connections. */
  readonly egress: Egress;
}

/** A provider that is not built in. Routes of SVC_MODEL_ROUTES refer to it by name. */
export interface ProviderDefinition {
  readonly name: string;
  /**
   * Opens the provider for routes of chat models; absent if it has none. Called on each actor thread before the first call;
   * `options` come from SVC_MODEL_PROVIDER_OPTIONS.
   */
  open?(deps: ProviderDeps & { readonly options: ProviderOptions }): ModelProvider;
  /** Opens the embedder for routes of kind `embedding`; absent if the provider has none. */
  openEmbedder?(deps: ProviderDeps & { readonly options: ProviderOptions }): Embedder;
  /** Opens the decider for routes of SVC_DECISION_ROUTES; absent if the provider has none. */
  openDecider?(deps: ProviderDeps & { readonly options: ProviderOptions }): Decider;
}
