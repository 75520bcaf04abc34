import type { TSchema } from "typebox";
import { credentialOf } from "../../../governance/egress/outgoing.ts";
import type { Secrets } from "../../../governance/secret-mask.ts";
import { secretFault } from "../../../governance/settings/egress-credentials.ts";
import type { Settings } from "../../../governance/settings/settings.ts";
import { includesTenant, type TenantList } from "../../../governance/settings/tenant-list.ts";
import type { OperatorTargets, Registries } from "../../../manifests/registries.ts";
import type { Models } from "../../models/models.ts";
import { offeredTools, type ToolSource } from "../source.ts";

/** The parts of a deployment that manifests may name. */
export interface Nameable {
  readonly models: Models;
  readonly secrets: Pick<Secrets, "find">;
  readonly toolSources: readonly Pick<ToolSource, "name" | "offers">[];
  /** By name. */
  readonly patterns: ReadonlyMap<string, unknown>;
  /** JSON Schemas of `spec.extensions`, by the name of the plugin; absent for none. */
  readonly extensions?: ReadonlyMap<string, TSchema>;
}

/** Returns the registries for the compiler of manifests, as plain data. */
export function registriesOf(
  settings: Settings,
  { secrets, models, toolSources, patterns, extensions = new Map() }: Nameable,
): Registries {
  return {
    tools: offeredTools(toolSources),
    routes: models.routes,
    embeddings: models.embeddings,
    decisions: models.decisions,
    patterns: new Set(patterns.keys()),
    extensions,
    defaultModelId: models.defaultModelId,
    defaultVisionModelId: settings.defaultVisionModelId,
    webhookEndpoints: new Map(Object.entries(settings.webhookEndpoints).map(([id, { tenants }]) => [id, tenants])),
    targets: operatorTargets(settings, secrets),
    hasRedis: settings.redisUrl !== "",
    workspaceDeploymentTenants: settings.workspaceDeploymentTenants,
  };
}

function operatorTargets(settings: Settings, secrets: Pick<Secrets, "find">): OperatorTargets {
  return {
    egressCredential(id, tenantId) {
      const credential = credentialOf(settings.egressCredentials, id, tenantId);
      if (credential === null) return null;
      const secret = secrets.find(credential.secret);
      return { host: credential.host, fault: secret === null ? "has a secret that is not set" : secretFault(secret) };
    },
    grantsSecret(name, tenantId) {
      const { secretTenants } = settings;
      return Object.hasOwn(secretTenants, name) && includesTenant(secretTenants[name] as TenantList, tenantId);
    },
    stdioFault: () => "is not supported by this version",
    hasSearch: settings.searchBackend !== "none",
  };
}
