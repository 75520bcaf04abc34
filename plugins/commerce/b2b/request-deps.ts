import type { HttpContext } from "../../../http/context.ts";
import type { RouteRequest } from "../../../http/route.ts";
import type { PluginToolContext } from "../../plugin.ts";
import type { SourceDeps } from "../sources/entity-source.ts";
import type { Acting } from "./quoting.ts";

/** Returns the services of a request for a tenant. */
export function depsOf(context: HttpContext, tenantId: string): SourceDeps {
  const { env, store, settings, outgoing, secrets, mask, metrics } = context;
  const count = metrics.countOwn.bind(metrics);
  return { env, store: store.tenant(tenantId), settings, outgoing, secrets, mask, count };
}

/** Returns the services of a tool call. */
export function depsOfCall({ env, store, settings, outgoing, secrets, mask, count }: PluginToolContext): SourceDeps {
  return { env, store, settings, outgoing, secrets, mask, count };
}

/** Returns who makes a request. */
export function actingOf({ principal }: Pick<RouteRequest<never, never, never>, "principal">): Acting {
  return { principal, manifest: "", thread: "" };
}

/** Returns who acts in a tool call. */
export function actingInCall({ principal, manifest, tenantId, threadSuffix }: PluginToolContext): Acting {
  return { principal, manifest, thread: threadSuffix === null ? "" : `${tenantId}:${threadSuffix}` };
}
