import { getHeapStatistics } from "node:v8";
import { deliveryActor } from "../actors/delivery/delivery-actor.ts";
import type { DeliveryDeps } from "../actors/delivery/deps.ts";
import { type DurableDeps, durableActor } from "../actors/durable/durable-actor.ts";
import { embedderActor } from "../actors/embedder/embedder-actor.ts";
import type { EmbedderDeps } from "../actors/embedder/page.ts";
import type { JobsDeps } from "../actors/jobs/deps.ts";
import { jobsActor } from "../actors/jobs/jobs-actor.ts";
import { ManifestLibrary } from "../actors/library/manifest-library.ts";
import { type LimiterDeps, limiterActor } from "../actors/limiter/limiter-actor.ts";
import { type ManifestsDeps, manifestsActor } from "../actors/manifests/manifests-actor.ts";
import { ModelCards } from "../actors/manifests/model-cards.ts";
import { createModels } from "../actors/models/create-models.ts";
import { TokenCounter } from "../actors/models/token-counter.ts";
import { type NodeDeps, nodeActor } from "../actors/node/node-actor.ts";
import { recallActor } from "../actors/recall/recall-actor.ts";
import { KnownPrefixes } from "../actors/run/billing/call-rows.ts";
import { unreadyRuns } from "../actors/run/lifecycle/unready-runs.ts";
import { patterns as builtInPatterns } from "../actors/run/patterns/patterns.ts";
import { builtInContextSources } from "../actors/run/prompt/context-source.ts";
import { VectorMemory } from "../actors/run/prompt/vector-memory.ts";
import { runActor } from "../actors/run/run-actor.ts";
import type { PatternDeps } from "../actors/run/steps/pattern.ts";
import { TextPace } from "../actors/run/stream/text-pace.ts";
import { ContextMemory } from "../actors/runtime/context-memory.ts";
import type { ThreadDeps } from "../actors/thread/deps.ts";
import { threadActor } from "../actors/thread/thread-actor.ts";
import { UnconfirmedLogs } from "../actors/thread/unconfirmed-logs.ts";
import { UnpublishedEvents } from "../actors/thread/unpublished-events.ts";
import { delegationSource } from "../actors/tools/delegation/task.ts";
import { imageToolSource } from "../actors/tools/images/image-tool.ts";
import { McpConnections } from "../actors/tools/mcp/connections.ts";
import { mcpSource } from "../actors/tools/mcp/mcp-source.ts";
import { peerSource } from "../actors/tools/peers/peer-tool.ts";
import { clientToolSource } from "../actors/tools/questions/client-tool.ts";
import { queueSource } from "../actors/tools/questions/queue-tool.ts";
import { builtInSource } from "../actors/tools/registry/built-in.ts";
import { registriesOf } from "../actors/tools/registry/registries.ts";
import { ToolSets } from "../actors/tools/tool-sets.ts";
import { httpToolSource } from "../actors/tools/web/http-tool.ts";
import { searchToolSource } from "../actors/tools/web/search-tool.ts";
import type { WorkspaceDeps } from "../actors/workspace/place.ts";
import { workspaceActor } from "../actors/workspace/workspace-actor.ts";
import type { Bus } from "../bus/bus.ts";
import type { Env } from "../bus/env.ts";
import type { NodeId } from "../bus/protocol/node-id.ts";
import { FairSemaphore } from "../bus/queues/fair-semaphore.ts";
import { Semaphore } from "../bus/queues/semaphore.ts";
import { TenantSemaphores } from "../bus/queues/tenant-semaphores.ts";
import { SlotSet } from "../bus/slot-map.ts";
import { AuditLog } from "../governance/audit.ts";
import { ComputePool } from "../governance/compute/compute-pool.ts";
import { builtInControls } from "../governance/controls/built-in.ts";
import { Egress } from "../governance/egress/egress.ts";
import { Outgoing } from "../governance/egress/outgoing.ts";
import { Redis } from "../governance/egress/redis.ts";
import { egressRouteOf } from "../governance/egress/route.ts";
import { createLogger } from "../governance/log.ts";
import { Metrics } from "../governance/metrics.ts";
import { SecretMask, Secrets } from "../governance/secret-mask.ts";
import { holds } from "../governance/settings/duties.ts";
import { objectStoreConfigOf, objectsAreShared } from "../governance/settings/object-store-config.ts";
import { readRedisUrl } from "../governance/settings/redis-place.ts";
import type { Settings } from "../governance/settings/settings.ts";
import { createResolver } from "../manifests/resolve/resolve.ts";
import { ArtifactStore } from "../storage/files/artifact-store.ts";
import { FileStore } from "../storage/files/file-store.ts";
import { openObjectStore } from "../storage/objects/open.ts";
import type { StoreConfig } from "../storage/store/config.ts";
import type { Store } from "../storage/store/store.ts";
import { ThreadKeys } from "../storage/tables/thread-keys.ts";
import {
  type LoadedPlugin,
  pluginContextSources,
  pluginControls,
  pluginExtensions,
  pluginHooks,
  pluginInputControls,
  pluginMetrics,
  pluginPatterns,
  pluginProviders,
  pluginToolSources,
} from "./plugin-seams.ts";

/** The configuration of an actor thread; cloned to it when it starts. */
export interface NodeConfig {
  /** Number of the node in this process. */
  readonly node: number;
  /** The nodes that hold actors, in the same order on every node. */
  readonly actorNodes: readonly NodeId[];
  readonly settings: Settings;
  readonly store: StoreConfig;
  /** Id of this process among the hosts; random and new at every start. */
  readonly bootId: string;
  /** How many predecessors this node had in this process. */
  readonly incarnation: number;
  /** Version of svc. */
  readonly version: string;
}

/** Dependencies of all actors of a thread; each kind uses its part. */
export type ActorDeps = DeliveryDeps &
  EmbedderDeps &
  DurableDeps &
  JobsDeps &
  LimiterDeps &
  ManifestsDeps &
  NodeDeps &
  PatternDeps &
  ThreadDeps &
  WorkspaceDeps & { readonly mcp: McpConnections };

/** The built-in actor kinds. */
export const actorKinds = [
  deliveryActor,
  embedderActor,
  durableActor,
  jobsActor,
  limiterActor,
  manifestsActor,
  nodeActor,
  recallActor,
  runActor,
  threadActor,
  workspaceActor,
];

/** Max suspended runs that one node resumes at once (decision 87: the bound of resumes per node). */
const resumesMax = 256;
/** Max concurrent workspace requests of one tenant on one node. */
const workspacesMax = 4;
/** A turn needs about 16 times the bytes that it loads: strings, JSON for the model and the client, requests, and garbage. */
const heapShare = 16;
/** Max webhooks that one node sends at once, in total and per tenant. */
const deliveriesMax = 256;
const deliveriesOfTenantMax = 64;

/** Creates the dependencies that the actors of one node share, including those of plugins. */
export function createActorDeps(
  config: NodeConfig,
  env: Env,
  store: Store,
  bus: Bus,
  plugins: readonly LoadedPlugin[] = [],
): ActorDeps {
  const { settings } = config;
  const metrics = new Metrics(pluginMetrics(plugins));
  const mask = new SecretMask(settings.secretValues);
  const log = createLogger(settings, mask, { node: config.node });
  const secrets = new Secrets(settings, mask);
  const route = egressRouteOf(settings);
  const egress = {
    public: new Egress("public", undefined, env, route),
    operator: new Egress("operator", undefined, env, route),
  };
  const outgoing = new Outgoing({ settings, secrets, env, threads: config.actorNodes.length });
  const services = {
    ...{ env, settings, store, bus, log, mask },
    count: (metric: string, labels: Readonly<Record<string, string>>) => metrics.countOwn(metric, labels),
  };
  const audit = new AuditLog(store, env, mask, settings.auditFlushSeconds, () =>
    metrics.count("svc_buffer_dropped_total", { buffer: "audit" }),
  );
  const threads = config.actorNodes.length;
  const mcp = new McpConnections({ env, outgoing, secrets, audit, threads, version: config.version });
  const models = createModels(settings, env, mask, pluginProviders(plugins));
  const toolSources = [
    clientToolSource,
    queueSource,
    httpToolSource,
    mcpSource(mcp, { env, audit, store }),
    peerSource,
    searchToolSource(settings),
    imageToolSource(env),
    builtInSource,
    delegationSource,
    ...pluginToolSources(plugins, services),
  ];
  const patterns = new Map([...builtInPatterns, ...pluginPatterns(plugins)]);
  const registries = registriesOf(settings, {
    models,
    secrets,
    toolSources,
    patterns,
    extensions: pluginExtensions(plugins),
  });
  const objects = openObjectStore(objectStoreConfigOf(settings), env);
  const fromStore = settings.manifestSource === "store";
  const resolver = createResolver({
    env,
    store: fromStore ? store : null,
    objects: fromStore ? objects : null,
    directory: settings.manifestDir === "" ? null : settings.manifestDir,
  });
  const slots = new FairSemaphore(deliveriesMax, deliveriesOfTenantMax);
  slots.stopped = !holds(settings, "worker");
  const monotonic = () => env.monotonic();
  const manifests = new ManifestLibrary(resolver, registries, objects, metrics, monotonic);
  return {
    env,
    bus,
    settings,
    store,
    models,
    tokens: new TokenCounter(env),
    vectors: new VectorMemory(),
    contexts: new ContextMemory(getHeapStatistics().heap_size_limit / heapShare, env),
    prefixes: new KnownPrefixes(env),
    toolSources,
    toolSets: new ToolSets(toolSources, env, log, (source) =>
      metrics.count("svc_tool_sources_missing_total", { source }),
    ),
    outgoing,
    compute: new ComputePool(env),
    controls: [...builtInControls, ...pluginHooks(plugins, services), ...pluginControls(plugins, services)],
    inputControls: pluginInputControls(plugins, services),
    contextSources: [...builtInContextSources, ...pluginContextSources(plugins, services)],
    patterns,
    redis: settings.redisUrl === "" ? null : new Redis(readRedisUrl(settings.redisUrl), env, log),
    resumes: new Semaphore(resumesMax),
    workspaceSemaphores: new TenantSemaphores(workspacesMax),
    manifests,
    cards: new ModelCards(manifests, objects),
    files: new FileStore(
      objectsAreShared(settings) ? objects : null,
      env,
      settings.attachmentsMaxBytesPerTenant,
      settings.tenantStoredBytes,
      settings.maxUploadBytes,
    ),
    artifacts: new ArtifactStore(objectsAreShared(settings) ? objects : null, env, settings.tenantStoredBytes),
    threadKeys: new ThreadKeys(store),
    audit,
    mcp,
    metrics,
    pace: new TextPace(env),
    mask,
    log,
    secrets,
    webhookEgress: egress,
    webhookAgent: `svc-webhooks/${config.version}`,
    slots,
    liveRuns: new SlotSet(),
    heardRuns: new SlotSet(),
    unconfirmed: new UnconfirmedLogs(bus, env),
    unpublished: new UnpublishedEvents(bus),
    tokenPrefetches: new Set(),
    unreadyRuns: () => unreadyRuns({ store, manifests, models }),
    host: config.bootId,
    owner: `${config.bootId}:${config.node}:${config.incarnation}`,
  };
}
