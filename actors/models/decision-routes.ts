import type { DecisionOverride } from "../../governance/settings/decision-options.ts";
import type { DecisionRoute, ModelRoute } from "../../manifests/registries.ts";
import { unknownFigures } from "./built-in-routes.ts";

// The built-in deciders. Models, wire names and rates come from the specification; output is free. The context window is from
// Cloudflare, "Clef". Figures without a source are left unknown.

const clefWindow = 65_536;

const builtInModels: readonly ModelRoute[] = [
  decider("clef", "workers_ai", "@cf/cloudflare/clef", 0.24, clefWindow),
  decider("clef-flash", "workers_ai", "@cf/cloudflare/clef-flash", 0.09, clefWindow),
  decider("jev", "typesafe", "jev-latest", 0.042),
  decider("jev-cf", "workers_ai", "typesafe/jev", null),
];

/** Compares words locally, at no cost. */
const keywordId = "keyword";
/** The small model of the default model's provider. */
const smallId = "small-llm";
const smallModels: Readonly<Record<string, string>> = {
  anthropic: "claude-haiku",
  openai: "gpt-4.1-mini",
  workers_ai: "glm-flash-cf",
};

/** The targets that deciders may name. */
interface Leads {
  readonly routes: ReadonlyMap<string, ModelRoute>;
  /** Names of the providers that have deciders. */
  readonly deciding: readonly string[];
  readonly defaultModelId: string;
}

/**
 * Returns all deciders: the operator's, then the built-in ones that they do not replace. Calls `refuse` for an unknown provider,
 * and for an `llm` entry with an unknown model route.
 */
export function decisionRoutes(
  overrides: Readonly<Record<string, DecisionOverride>>,
  { routes, deciding, defaultModelId }: Leads,
  refuse: (reason: string) => Error,
): ReadonlyMap<string, DecisionRoute> {
  const builtIn = new Map(builtInModels.map((route) => [route.id, route]));
  const all = new Map<string, DecisionRoute>();
  for (const [id, { provider, model, price }] of Object.entries(overrides)) {
    if (!deciding.includes(provider))
      throw refuse(`${id}: names an unknown provider; known are ${deciding.join(", ")}`);
    if (provider === "llm") {
      const route = routes.get(model);
      if (route === undefined) throw refuse(`${id}: names no model route; known are ${[...routes.keys()].join(", ")}`);
      all.set(id, { id, route });
      continue;
    }
    const before = builtIn.get(id);
    const figures = before?.provider === provider && before.model === model ? before : unknownFigures;
    const route: ModelRoute = { ...figures, id, provider, model, price: price ?? figures.price, decides: true };
    all.set(id, { id, route });
  }
  const add = (decision: DecisionRoute): unknown => all.has(decision.id) || all.set(decision.id, decision);
  for (const [id, route] of builtIn) add({ id, route });
  add({ id: keywordId, route: null });
  add({ id: smallId, route: smallRoute(routes, defaultModelId) });
  return all;
}

function smallRoute(routes: ReadonlyMap<string, ModelRoute>, defaultModelId: string): ModelRoute {
  const own = routes.get(defaultModelId) as ModelRoute;
  const small = routes.get(smallModels[own.provider] ?? "");
  return small?.provider === own.provider ? small : own;
}

function decider(
  id: string,
  provider: string,
  model: string,
  input: number | null,
  context_window = unknownFigures.context_window,
): ModelRoute {
  const price = input === null ? null : { input, output: 0, cache_read: input, cache_write: input };
  return { ...unknownFigures, id, provider, model, context_window, price, decides: true };
}
