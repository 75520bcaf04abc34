import type { Env } from "../../bus/env.ts";
import type { Egress } from "../../governance/egress/egress.ts";
import type { SecretMask, Secrets } from "../../governance/secret-mask.ts";
import type { ProviderOptions } from "../../governance/settings/model-options.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { Embedder } from "./embedder.ts";
import type { ModelProvider } from "./provider.ts";

/** What a provider is opened with. */
export interface ProviderDeps {
  readonly settings: Settings;
  readonly env: Env;
  /** Looks up what options give as secret:NAME. */
  readonly secrets: Secrets;
  readonly mask: SecretMask;
  /** Connections to others are made through it. */
  readonly egress: Egress;
}

/** A provider that is not built in: routes of SVC_MODEL_ROUTES lead to it by its name. */
export interface ProviderDefinition {
  readonly name: string;
  /** Called on each thread that runs turns, before the first call; `options` are those of SVC_MODEL_PROVIDER_OPTIONS. */
  open(deps: ProviderDeps & { readonly options: ProviderOptions }): ModelProvider;
  /** The same for routes of kind `embedding`; absent where the provider makes no vectors. */
  openEmbedder?(deps: ProviderDeps & { readonly options: ProviderOptions }): Embedder;
}
