import type { ModelPrice } from "../../manifests/registries.ts";
import { mapEntries, readPrice } from "./model-options.ts";
import { readObject, readString } from "./object-shape.ts";

/** Providers that SVC_DECISION_ROUTES may name; `llm` is a chat model, by the id of its route. */
export const decisionProviders = ["workers_ai", "typesafe", "llm"] as const;

/** A decider as SVC_DECISION_ROUTES defines it, under its id. */
export interface DecisionOverride {
  readonly provider: string;
  /** The provider's name of the model; for `llm`, the id of a model route. */
  readonly model: string;
  /** If absent, the price of the built-in decider with the same id applies, if there is one. */
  readonly price?: ModelPrice;
}

/** Reads SVC_DECISION_ROUTES: a map of id to {provider, model, price?}. */
export function readDecisionRoutes(document: unknown): Readonly<Record<string, DecisionOverride>> {
  return mapEntries(document, (value, where) => {
    const route = readObject(value, where, ["provider", "model"], ["price"]);
    const provider = readString(route.provider, `${where}: provider`);
    if (provider === "llm" && route.price !== undefined)
      throw new Error(`${where}: price comes from the model route; omit it`);
    return {
      provider,
      model: readString(route.model, `${where}: model`),
      ...(route.price !== undefined && { price: readPrice(route.price, where) }),
    };
  });
}
