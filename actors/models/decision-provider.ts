import type { Env } from "../../bus/env.ts";
import type { Egress } from "../../governance/egress/egress.ts";
import type { ProviderOptions } from "../../governance/settings/model-options.ts";
import type { ModelRoute } from "../../manifests/registries.ts";
import { workersAiUrl } from "./built-in-providers.ts";
import { DecisionReader, questionName } from "./decision-reader.ts";
import type { ModelProvider, ModelRequest } from "./provider.ts";
import { type WireConfig, type WireProtocol, wireProvider } from "./wire-provider.ts";

// Decision models use the System One format at every provider. One request has a state and questions with options. One reply,
// not streamed, has a probability for each option.

/** The address of a decision model. */
interface DecisionAddress {
  readonly baseUrl: string;
  /** Appended to the base URL. */
  readonly path: string;
}

/** Returns the provider of one decision model. The key is sent as a bearer token. */
export function decisionProvider(config: WireConfig & DecisionAddress, env: Env, egress: Egress): ModelProvider {
  return wireProvider(config, systemOne(config.path), env, egress);
}

/**
 * Returns the address of a decision model by its provider's options; null if all calls go to a gateway that does not offer the
 * model.
 */
export function decisionAddress(
  { provider, model }: ModelRoute,
  { base_url, account_id = "", gateway_id }: ProviderOptions,
  gateway: string,
): DecisionAddress | null {
  if (provider !== "workers_ai") {
    const own = gateway === "" ? base_url : `${withoutVersion(gateway)}/typesafe/v1`;
    return { baseUrl: own ?? "https://api.typesafe.ai/v1", path: "/systemone" };
  }
  if (gateway !== "") return null;
  // Unlike chat, the URL contains the model in its path.
  const account = withoutVersion(base_url ?? workersAiUrl(account_id, gateway_id));
  const path = model.split("/").map(encodeURIComponent).join("/").replaceAll("%40", "@");
  return { baseUrl: gateway_id === undefined ? `${account}/run` : account, path: `/${path}` };
}

function withoutVersion(url: string): string {
  return url.replace(/\/+$/, "").replace(/\/v1$/, "");
}

function systemOne(path: string): WireProtocol {
  return {
    path,
    accept: "application/json",
    headers: (apiKey) => (apiKey === null ? [] : ["authorization", `Bearer ${apiKey}`]),
    begin: (request, events) => ({
      reader: new DecisionReader(events),
      body: () => requestBody(request),
      adapt: () => false,
      isContinued: () => false,
    }),
  };
}

function requestBody({ route, decision }: ModelRequest): string {
  if (decision === undefined) throw new Error(`${route.id} is a decision model, but the request has no decision`);
  const { state, instructions, options } = decision;
  // If the path contains the model, the body has only the last part of its name.
  const model = route.model.slice(route.model.lastIndexOf("/") + 1);
  return JSON.stringify({
    model,
    state,
    questions: { [questionName]: { type: "choice", instructions, criteria: options } },
  });
}
