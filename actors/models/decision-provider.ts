import type { Env } from "../../bus/env.ts";
import type { Egress } from "../../governance/egress/egress.ts";
import type { ProviderOptions } from "../../governance/settings/model-options.ts";
import type { ModelRoute } from "../../manifests/registries.ts";
import { workersAiUrl } from "./built-in-providers.ts";
import { DecisionReader, questionName } from "./decision-reader.ts";
import type { ModelProvider, ModelRequest } from "./provider.ts";
import { type WireConfig, type WireProtocol, wireProvider } from "./wire-provider.ts";

// Models that decide speak the System One format, whoever has them: a state and questions with their options in one request, a
// probability for each option in one answer, which is not streamed.

/** Where a model that decides is asked. */
interface DecisionAddress {
  readonly baseUrl: string;
  /** Behind the base URL. */
  readonly path: string;
}

/** Asks one model that decides. The key is sent as a bearer token. */
export function decisionProvider(config: WireConfig & DecisionAddress, env: Env, egress: Egress): ModelProvider {
  return wireProvider(config, systemOne(config.path), env, egress);
}

/**
 * Where a model that decides is asked, by the options of its provider; null where all calls go to a gateway of the operator's, and
 * that knows no such model.
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
  // Chats have an address of their own in the account; here the model is part of the path.
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
      goesOn: () => false,
    }),
  };
}

function requestBody({ route, decision }: ModelRequest): string {
  if (decision === undefined) throw new Error(`${route.id} was asked for something that is no decision`);
  const { state, instructions, options } = decision;
  // Where the model is in the path, the body has the last part of its name.
  const model = route.model.slice(route.model.lastIndexOf("/") + 1);
  return JSON.stringify({
    model,
    state,
    questions: { [questionName]: { type: "choice", instructions, criteria: options } },
  });
}
