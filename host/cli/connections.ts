import { createModels } from "../../actors/models/create-models.ts";
import { embedderUrl } from "../../actors/models/deployment-embedder.ts";
import { providerAddresses } from "../../actors/models/provider-probe.ts";
import type { Env } from "../../bus/env.ts";
import { Egress } from "../../governance/egress/egress.ts";
import { SecretMask, Secrets } from "../../governance/secret-mask.ts";
import { metadataHost } from "../../governance/settings/metadata-service.ts";
import { readServiceAccountKey } from "../../governance/settings/object-settings.ts";
import { readRedisUrl } from "../../governance/settings/redis-place.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import { SettingsError } from "../../governance/settings/settings-error.ts";
import { storeConfigOf } from "../../governance/settings/store-config.ts";
import type { TenantList } from "../../governance/settings/tenant-list.ts";
import type { Manifest } from "../../manifests/schema/manifest.ts";
import { openManifestDirectory } from "../../manifests/sources/files.ts";
import { readDeployment } from "../deployment.ts";
import { type LoadedPlugin, pluginProviders } from "../plugin-seams.ts";
import { pluginsOf } from "../plugins.ts";
import type { Command } from "./command.ts";
import { type Connection, row } from "./connection-row.ts";
import { listTable } from "./list-table.ts";
import { serviceConnections } from "./service-connections.ts";

/** `svc connections`: lists the connections that the server may open with these settings. Connects to nothing. */
export const connectionsCommand: Command = {
  summary: "List every connection that the server may open with these settings, and why; it opens none.",
  options: {},
  positionals: [],
  async run(_args, { env, environment, terminal }) {
    const { settings, plugins } = await readDeployment(environment);
    const connections = [
      ...connectionsOf(settings, env),
      ...serviceConnections(settings),
      ...pluginsOf(settings).map((name) => ({
        to: "hosts that the plugin documents",
        why: `the plugin ${name}`,
        from: "SVC_PLUGINS",
      })),
      ...embedderRows(settings, env, plugins),
      ...connectionsOfManifests(settings, env),
    ];
    const mask = new SecretMask(settings.secretValues).recorded;
    const rows = connections.map(({ to, why, from }) => [to, why, from].map((cell) => mask.text(cell)));
    return {
      code: 0,
      json: mask.value({ connections }),
      text: `${listTable({ heads: ["TO", "WHY", "FROM"], rows, statusAt: -1 }, terminal)}\n${rules}`,
    };
  },
};

const rules =
  "Agents reach public addresses only, except those of SVC_EGRESS_PRIVATE. Tenants may store manifests that name further public hosts.\n";

/** Returns the connections that settings name. */
function connectionsOf(settings: Settings, env: Env): readonly Connection[] {
  const mask = new SecretMask(settings.secretValues);
  const egress = new Egress("operator");
  const deps = { settings, env, mask, secrets: new Secrets(settings, mask), egress };
  const store = storeConfigOf(settings);
  const { redisUrl, webhookEndpoints, egressPrivate, egressCredentials, egressProxy, searchBackend, searchUrl } =
    settings;
  const { browsers } = settings;
  return [
    ...(store.engine === "postgres" ? [row(store.postgres.url, "the database", "SVC_DATABASE_URL")] : []),
    ...(redisUrl === "" ? [] : [redisRow(redisUrl)]),
    ...providerAddresses(deps).map(({ name, url, setting }) => row(url, `models of ${name}`, setting)),
    ...Object.entries(webhookEndpoints).map(([id, { url, tenants }]) =>
      row(url, `webhooks to ${id}${ofTenants(tenants)}`, "SVC_WEBHOOK_ENDPOINTS"),
    ),
    ...objectsRows(settings),
    ...(settings.shellRunnerUrl === ""
      ? []
      : [row(settings.shellRunnerUrl, "the runner of commands", "SVC_SHELL_RUNNER_URL")]),
    ...(settings.containerGatewayUrl === ""
      ? []
      : [row(settings.containerGatewayUrl, "the gateway of containers", "SVC_CONTAINER_GATEWAY_URL")]),
    ...Object.entries(settings.sandboxes).map(([id, { url, tenants }]) =>
      row(url, `the sandbox ${id}${ofTenants(tenants)}`, "SVC_SANDBOXES"),
    ),
    ...(searchBackend === "none" ? [] : [row(searchUrl, "web search of search_tools", "SVC_SEARCH_URL")]),
    ...Object.entries(browsers).map(([id, { url, tenants }]) =>
      row(url, `the browser ${id}${ofTenants(tenants)}`, "SVC_BROWSERS"),
    ),
    ...(egressProxy === "" ? [] : [row(egressProxy, "the proxy of all public destinations", "SVC_EGRESS_PROXY")]),
    ...egressPrivate
      .filter(({ tenants }) => tenants.length > 0)
      .map(({ host, cidr, port, tenants }) => ({
        to: `${host ?? cidr}:${port}`,
        why: `tools of agents${ofTenants(tenants)}`,
        from: "SVC_EGRESS_PRIVATE",
      })),
    ...Object.entries(egressCredentials).map(([id, { host, port, tenants }]) => ({
      to: `${host}:${port}`,
      why: `tools that use the credential ${id}${ofTenants(tenants)}`,
      from: "SVC_EGRESS_CREDENTIALS",
    })),
  ];
}

/** The host that receives the texts of documents and memories; none if a setting of models is invalid. */
function embedderRows(settings: Settings, env: Env, plugins: readonly LoadedPlugin[]): readonly Connection[] {
  const from = settings.memoryEmbedder === "auto" ? "SVC_MODEL_ROUTES" : "SVC_MEMORY_EMBEDDER";
  try {
    const models = createModels(settings, env, undefined, pluginProviders(plugins));
    const url = embedderUrl(settings, models);
    return url === null ? [] : [row(url, `texts of documents and memories, for ${models.memoryEmbedding?.id}`, from)];
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    return [];
  }
}

/** The bucket of objects, and what gives the credentials for it. */
function objectsRows(settings: Settings): readonly Connection[] {
  const { objectStore, s3Bucket, s3Endpoint, s3Region, s3AccessKey, gcsBucket, gcsEndpoint, gcsCredentials } = settings;
  if (objectStore !== "s3" && objectStore !== "gcs") return [];
  const [url, bucket, from] =
    objectStore === "gcs"
      ? [gcsEndpoint, gcsBucket, "SVC_GCS_ENDPOINT"]
      : [s3Url(s3Endpoint, s3Region, s3Bucket), s3Bucket, s3Endpoint === "" ? "SVC_S3_REGION" : "SVC_S3_ENDPOINT"];
  const hasKey = (objectStore === "gcs" ? gcsCredentials : s3AccessKey) !== "";
  const isLiteral = objectStore === "gcs" && hasKey && !gcsCredentials.startsWith("secret:");
  return [
    row(url, `the object store, in the bucket ${bucket}`, from),
    ...(hasKey ? [] : [row(`http://${metadataHost}`, "credentials of the instance's role", "SVC_EGRESS_PRIVATE")]),
    ...(isLiteral
      ? [row(readServiceAccountKey(gcsCredentials).token_uri, "tokens for the bucket", "SVC_GCS_CREDENTIALS")]
      : []),
    ...(objectStore === "gcs" && hasKey && !isLiteral
      ? [{ to: "token_uri of the key", why: "tokens for the bucket", from: "SVC_GCS_CREDENTIALS" }]
      : []),
  ];
}

function s3Url(endpoint: string, region: string, bucket: string): string {
  if (endpoint !== "") return endpoint;
  return `https://${bucket.includes(".") ? "" : `${bucket}.`}s3.${region}.amazonaws.com`;
}

/** Returns the connections that manifests of SVC_MANIFEST_DIR name; invalid files name none. */
function connectionsOfManifests({ manifestDir }: Settings, env: Env): readonly Connection[] {
  if (manifestDir === "") return [];
  const directory = openManifestDirectory(manifestDir, () => env.now());
  return directory.names().flatMap((name) => {
    try {
      const manifest = directory.get(name);
      return manifest === null ? [] : rowsOf(manifest);
    } catch {
      return [];
    }
  });
}

function rowsOf({ metadata: { name }, spec }: Manifest): Connection[] {
  const hosts = spec.network.allow_hosts;
  const anywhere = hosts === null ? "any public host" : hosts.join(", ") || "no host";
  return [
    ...spec.http_tools.map((tool): Connection => {
      const from = `${name}: spec.http_tools`;
      return tool.path_prefix === ""
        ? { to: anywhere, why: `the tool ${tool.name}`, from }
        : row(tool.path_prefix, `the tool ${tool.name}`, from);
    }),
    ...spec.browser_tools.map((tool): Connection => {
      const from = `${name}: spec.browser_tools`;
      const why = `pages of the tool ${tool.name}, through svc's proxy for browsers`;
      // A page below a prefix may load parts of others.
      return { to: "any public host", why, from };
    }),
    ...spec.mcp_servers.flatMap(({ name: server, url }) =>
      url === null ? [] : [row(url, `the MCP server ${server}`, `${name}: spec.mcp_servers`)],
    ),
    ...spec.containers.flatMap(({ name: container, gateway_url }) =>
      gateway_url === null ? [] : [row(gateway_url, `the container ${container}`, `${name}: spec.containers`)],
    ),
    ...spec.peers.map(({ name: peer, url }) => row(url, `the agent ${peer}`, `${name}: spec.peers`)),
  ];
}

function redisRow(url: string): Connection {
  const { host, port } = readRedisUrl(url);
  return { to: `${host}:${port}`, why: "tool queues", from: "SVC_REDIS_URL" };
}

function ofTenants(tenants: TenantList): string {
  return tenants === "*" ? "" : ` of ${tenants.join(", ")}`;
}
