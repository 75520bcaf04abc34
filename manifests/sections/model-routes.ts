import { meant } from "../../bus/nearest.ts";
import type { CompileContext } from "../fields/section.ts";
import { type Path, writePath } from "../problems.ts";
import type { ModelRoute } from "../registries.ts";
import type { AuthSpec } from "./auth.ts";
import type { LimitsSpec } from "./limits.ts";

// Checks that apply to every model route of a manifest.

/** Returns the route that a field of another section names; null if it was refused. */
export function namedRoute(
  spec: AuthSpec & LimitsSpec,
  id: string | null,
  loc: Path,
  context: CompileContext,
): ModelRoute | null {
  const route = id === null ? null : findRoute(id, loc, context);
  if (route === null) return null;
  checkProvider(spec, route, loc, context);
  checkRates(spec, route, false, loc, context);
  return route;
}

/** Returns the route with this id; refuses an unknown id and returns null. */
export function findRoute(id: string, loc: Path, { registries, refuse }: CompileContext): ModelRoute | null {
  const route = registries.routes.get(id);
  if (route === undefined)
    refuse(
      loc,
      `names the model route ${id}, which does not exist${meant(id, [...registries.routes.keys()])}`,
      "unresolved",
    );
  return route ?? null;
}

/** Refuses a route of a provider that the manifest does not allow. */
export function checkProvider({ auth }: AuthSpec, route: ModelRoute, loc: Path, { refuse }: CompileContext): void {
  const allowed = auth.outbound.providers;
  if (allowed.length === 0 || allowed.includes(route.provider)) return;
  refuse(loc, `uses the provider ${route.provider}, which spec.auth.outbound.providers does not list`, "conflict");
}

/** Refuses more tools than a model takes, unless the relevant ones are chosen for each message (decision 167). */
export function checkToolCount(
  { tools_retrieval }: { readonly tools_retrieval: { readonly enabled: boolean } },
  { id, tools_max }: ModelRoute,
  loc: Path,
  { tools, refuse }: CompileContext,
): void {
  if (tools_max === null || tools.length <= tools_max || tools_retrieval.enabled) return;
  const says = `names the route ${id}, which takes at most ${tools_max} tools, and there are ${tools.length}; spec.tools_retrieval shows it the relevant ones`;
  refuse(loc, says, "conflict");
}

/**
 * Refuses max_cost_usd on a route without known rates, because it could not be enforced. `priced` is true if the
 * manifest sets its own rates.
 */
export function checkRates(
  { limits }: LimitsSpec,
  route: ModelRoute,
  priced: boolean,
  loc: Path,
  { refuse }: CompileContext,
): void {
  if (limits.max_cost_usd === null || route.price !== null || priced) return;
  const says = `cannot be enforced: ${writePath(loc)} names the route ${route.id}, whose rates are unknown`;
  refuse(["spec", "limits", "max_cost_usd"], says, "conflict");
}
