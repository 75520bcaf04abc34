import type { TSchema } from "typebox";
import { credentialOf } from "../../../governance/egress/outgoing.ts";
import type { Secrets } from "../../../governance/secret-mask.ts";
import { browserOf } from "../../../governance/settings/browser-settings.ts";
import { secretFault } from "../../../governance/settings/egress-credentials.ts";
import type { Settings } from "../../../governance/settings/settings.ts";
import { includesTenant, type TenantList } from "../../../governance/settings/tenant-list.ts";
import type { OperatorTargets, Registries } from "../../../manifests/registries.ts";
import { tokensOf } from "../../../manifests/sections/shell-tools.ts";
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
    hookEndpoints: new Set(Object.entries(settings.webhookEndpoints).flatMap(([id, { hooks }]) => (hooks ? [id] : []))),
    webhookEndpoints: new Map(Object.entries(settings.webhookEndpoints).map(([id, { tenants }]) => [id, tenants])),
    targets: operatorTargets(settings, secrets),
    hasRedis: settings.redisUrl !== "",
    forbidsPlaintextSecrets: settings.environment === "production",
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
    stdioFault(command) {
      if (!settings.mcpStdioAllowedCommands.includes(command))
        return "is not allowed on this server: SVC_MCP_STDIO_ALLOWED_COMMANDS does not list it";
      return settings.shellLocal === "none" && settings.shellRunnerUrl === ""
        ? "needs SVC_SHELL_LOCAL or SVC_SHELL_RUNNER_URL, which are not set on this server"
        : null;
    },
    stdioFolderFault(folder) {
      if (settings.shellRunnerUrl !== "")
        return "is a folder of this server, and the runner of SVC_SHELL_RUNNER_URL starts the program elsewhere; leave it out";
      const isReadable = settings.shellReadable.some((top) => folder === top || folder.startsWith(`${top}/`));
      return isReadable ? null : "is not a folder that SVC_SHELL_READABLE names, or one below it";
    },
    hasBrowser: (id, tenantId) => browserOf(settings.browsers, id, tenantId) !== null,
    hasSandbox: (binding, tenantId) =>
      Object.hasOwn(settings.sandboxes, binding) &&
      includesTenant(settings.sandboxes[binding]?.tenants ?? [], tenantId),
    allowedImages: settings.sandboxAllowedImages,
    commandFault(tokens) {
      const allowed = settings.shellAllowedCommands.map(tokensOf);
      const overlaps = (prefix: readonly string[]) => prefix.every((token, at) => (tokens[at] ?? token) === token);
      return allowed.length === 0 || allowed.some(overlaps)
        ? null
        : "begins no command that SVC_SHELL_ALLOWED_COMMANDS allows";
    },
    hasSearch: settings.searchBackend !== "none",
  };
}
