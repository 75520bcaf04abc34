import { keyedProviders } from "../../governance/settings/model-options.ts";
import { providerKeyNames } from "../../governance/settings/provider-keys.ts";
import type { RouteTarget } from "../../manifests/registries.ts";
import type { ModelFailure } from "./provider.ts";

/** Returns an instruction for the operator about a failed model call, as one sentence that names the setting. */
export function failureAdvice({ id, provider, model }: RouteTarget, failure: ModelFailure): string {
  const { status, timedOut, unsendable } = failure;
  const elsewhere = "name another route in spec.model.fallbacks";
  if (unsendable)
    return `the key of ${provider} or a header of it has a character that no header can carry: look at ${keySetting(provider)}`;
  if (status === 401 || status === 403) return `${provider} does not take the key: look at ${keySetting(provider)}`;
  if (status === 404) return `${provider} has no model ${model}: look at ${id} in SVC_MODEL_ROUTES, or at its address`;
  if (status === 429) return `the rate or the credit of ${provider} is used up: wait, or ${elsewhere}`;
  if (status >= 500) return `${provider} has failed by itself: wait, or ${elsewhere}`;
  if (status >= 400) return `${provider} does not take the request: its words are the cause`;
  if (timedOut) return `${provider} has not answered in time: look at its address, or raise SVC_MODEL_TIMEOUT_SECONDS`;
  return `${provider} could not be reached: look at ${addressSetting(provider)} and at the network`;
}

function keySetting(provider: string): string {
  const keyed = keyedProviders.find((name) => name === provider);
  return keyed === undefined ? `api_key of ${provider} in SVC_MODEL_PROVIDERS` : providerKeyNames(keyed).join(" or ");
}

function addressSetting(provider: string): string {
  const isKeyed = keyedProviders.some((name) => name === provider);
  return `base_url of ${provider} in ${isKeyed ? "SVC_MODEL_PROVIDER_OPTIONS, SVC_LITELLM_BASE_URL" : "SVC_MODEL_PROVIDERS"}`;
}
