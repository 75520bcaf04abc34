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
}

/** Returns these parts as data for the compiler. */
export function registriesOf(settings: Settings, { models, toolSources, patterns }: Nameable): Registries {
  return {
    tools: offeredTools(toolSources),
    routes: models.routes,
    decisions: models.decisions,
    patterns: new Set(patterns.keys()),
    defaultModelId: models.defaultModelId,
    defaultVisionModelId: settings.defaultVisionModelId,
    webhookEndpoints: new Map(Object.entries(settings.webhookEndpoints).map(([id, { tenants }]) => [id, tenants])),
    hasRedis: settings.redisUrl !== "",
    workspaceDeploymentTenants: settings.workspaceDeploymentTenants,
  };
}
