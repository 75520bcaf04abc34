import type { TSchema } from "typebox";
import type { Settings } from "../../../governance/settings/settings.ts";
import type { Registries } from "../../../manifests/registries.ts";
import type { Models } from "../../models/models.ts";
import { offeredTools, type ToolSource } from "../source.ts";

/** The parts of a deployment that manifests may name. */
export interface Nameable {
  readonly models: Models;
  readonly toolSources: readonly Pick<ToolSource, "name" | "offers">[];
  /** By name. */
  readonly patterns: ReadonlyMap<string, unknown>;
  /** Schemas of what plugins take at `spec.extensions`, by their names; absent for none. */
  readonly extensions?: ReadonlyMap<string, TSchema>;
}

/** The same as data for the compiler. */
export function registriesOf(
  settings: Settings,
  { models, toolSources, patterns, extensions = new Map() }: Nameable,
): Registries {
  return {
    tools: offeredTools(toolSources),
    routes: models.routes,
    decisions: models.decisions,
    patterns: new Set(patterns.keys()),
    extensions,
    defaultModelId: models.defaultModelId,
    defaultVisionModelId: settings.defaultVisionModelId,
    webhookEndpoints: new Map(Object.entries(settings.webhookEndpoints).map(([id, { tenants }]) => [id, tenants])),
    hasRedis: settings.redisUrl !== "",
    workspaceDeploymentTenants: settings.workspaceDeploymentTenants,
  };
}
