import { getHeapStatistics } from "node:v8";
import { type AuditDeps, auditActor } from "../actors/audit/audit-actor.ts";
import { Checkouts } from "../actors/checkouts/checkouts.ts";
import { commandsActor } from "../actors/commands/commands-actor.ts";
import type { CommandsDeps } from "../actors/commands/deps.ts";
import { deliveryActor } from "../actors/delivery/delivery-actor.ts";
import type { DeliveryDeps } from "../actors/delivery/deps.ts";
import { type DurableDeps, durableActor } from "../actors/durable/durable-actor.ts";
import { embedderActor } from "../actors/embedder/embedder-actor.ts";
import type { EmbedderDeps } from "../actors/embedder/page.ts";
import type { EvalsDeps } from "../actors/evals/deps.ts";
import { evalsActor } from "../actors/evals/evals-actor.ts";
import type { JobsDeps } from "../actors/jobs/deps.ts";
import { jobsActor } from "../actors/jobs/jobs-actor.ts";
import { ManifestLibrary } from "../actors/library/manifest-library.ts";
import { type LimiterDeps, limiterActor } from "../actors/limiter/limiter-actor.ts";
import { type ManifestsDeps, manifestsActor } from "../actors/manifests/manifests-actor.ts";
import { ModelCards } from "../actors/manifests/model-cards.ts";
import type { MemoryDeps } from "../actors/memory/deps.ts";
import { memoryActor } from "../actors/memory/memory-actor.ts";
import { createModels } from "../actors/models/create-models.ts";
import { embedderOf } from "../actors/models/deployment-embedder.ts";
import { TokenCounter } from "../actors/models/token-counter.ts";
import { type NodeDeps, nodeActor } from "../actors/node/node-actor.ts";
import { recallActor } from "../actors/recall/recall-actor.ts";
import { KnownPrefixes } from "../actors/run/billing/call-rows.ts";
import { unreadyRuns } from "../actors/run/lifecycle/unready-runs.ts";
import { patterns as builtInPatterns } from "../actors/run/patterns/patterns.ts";
import { agentsFileSource } from "../actors/run/prompt/agents-file.ts";
import { builtInContextSources } from "../actors/run/prompt/context-source.ts";
import { proceduresSource } from "../actors/run/prompt/procedures.ts";
import { skillsSource } from "../actors/run/prompt/skills-source.ts";
import { VectorMemory } from "../actors/run/prompt/vector-memory.ts";
import { runActor } from "../actors/run/run-actor.ts";
import type { PatternDeps } from "../actors/run/steps/pattern.ts";
import { TextPace } from "../actors/run/stream/text-pace.ts";
import { ContextMemory } from "../actors/runtime/context-memory.ts";
import type { LiveRuns } from "../actors/runtime/live-runs.ts";
import type { SkillJobsDeps } from "../actors/skill-jobs/deps.ts";
import { skillJobsActor } from "../actors/skill-jobs/skill-jobs-actor.ts";
import type { ThreadDeps } from "../actors/thread/deps.ts";
import { threadActor } from "../actors/thread/thread-actor.ts";
import { UnconfirmedLogs } from "../actors/thread/unconfirmed-logs.ts";
import { UnpublishedEvents } from "../actors/thread/unpublished-events.ts";
import { BrowserProcess } from "../actors/tools/browser/browser-process.ts";
import { browserToolSource } from "../actors/tools/browser/browser-tool.ts";
import { delegationSource } from "../actors/tools/delegation/task.ts";
import { documentToolSource } from "../actors/tools/documents/search-documents.ts";
import { imageToolSource } from "../actors/tools/images/image-tool.ts";
import { McpConnections } from "../actors/tools/mcp/connections.ts";
import { mcpSource } from "../actors/tools/mcp/mcp-source.ts";
import { peerSource } from "../actors/tools/peers/peer-tool.ts";
import { clientToolSource } from "../actors/tools/questions/client-tool.ts";
import { queueSource } from "../actors/tools/questions/queue-tool.ts";
import { builtInSource } from "../actors/tools/registry/built-in.ts";
import { registriesOf } from "../actors/tools/registry/registries.ts";
import { mergeTaskSource } from "../actors/tools/repos/merge-task.ts";
import { publishSource } from "../actors/tools/repos/publish-commits.ts";
import { gatewayToolSource } from "../actors/tools/shell/gateway-tool.ts";
import { shellToolSource } from "../actors/tools/shell/shell-tool.ts";
import { ToolSets } from "../actors/tools/tool-sets.ts";
import { httpToolSource } from "../actors/tools/web/http-tool.ts";
import { searchToolSource } from "../actors/tools/web/search-tool.ts";
import type { WorkflowDeps } from "../actors/workflow/deps.ts";
import { builtInKinds } from "../actors/workflow/kinds/built-in.ts";
import { workflowActor } from "../actors/workflow/workflow-actor.ts";
import { workflowsActor } from "../actors/workflow/workflows-actor.ts";
import type { WorkspaceDeps } from "../actors/workspace/place.ts";
import { workspaceActor } from "../actors/workspace/workspace-actor.ts";
import type { Bus } from "../bus/bus.ts";
import type { Env } from "../bus/env.ts";
import { type NodeId, nodeId } from "../bus/protocol/node-id.ts";
import { FairSemaphore } from "../bus/queues/fair-semaphore.ts";
import { Semaphore } from "../bus/queues/semaphore.ts";
import { TenantSemaphores } from "../bus/queues/tenant-semaphores.ts";
import { SlotSet } from "../bus/slot-map.ts";
import { AuditLog } from "../governance/audit.ts";
import { StoredAccess } from "../governance/auth/stored-access.ts";
import { ComputePool } from "../governance/compute/compute-pool.ts";
import { builtInControls, builtInInputControls } from "../governance/controls/built-in.ts";
import { freeze } from "../governance/controls/freeze.ts";
import { Detectors } from "../governance/detection/detectors.ts";
import { Egress } from "../governance/egress/egress.ts";
import { Outgoing } from "../governance/egress/outgoing.ts";
import { Redis } from "../governance/egress/redis.ts";
import { egressRouteOf } from "../governance/egress/route.ts";
import { Freezes } from "../governance/freezes.ts";
import { createLogger } from "../governance/log.ts";
import { Metrics } from "../governance/metrics.ts";
import { openObjects } from "../governance/objects/open-objects.ts";
import { Processes } from "../governance/processes/processes.ts";
import { Connections } from "../governance/repos/connections.ts";
import { GitProxy } from "../governance/repos/git-proxy.ts";
import { RepoApi } from "../governance/repos/repo-api.ts";
import { SecretMask, Secrets } from "../governance/secret-mask.ts";
import { holds } from "../governance/settings/duties.ts";
import { isBucket, objectsAreShared } from "../governance/settings/object-store-config.ts";
import { readRedisUrl } from "../governance/settings/redis-place.ts";
import type { Settings } from "../governance/settings/settings.ts";
import { hasSignIn } from "../governance/settings/sign-in-methods.ts";
import { SkillCatalogs } from "../governance/skills/catalogs.ts";
import { HostSkills } from "../governance/skills/host-skills.ts";
import { SkillLibrary } from "../governance/skills/library.ts";
import { Spending } from "../governance/spending.ts";
import { tracerOf } from "../governance/tracing/tracer.ts";
import { TextVectors } from "../governance/vectors/text-vectors.ts";
import { createResolver } from "../manifests/resolve/resolve.ts";
import { rememberedObjects } from "../manifests/sources/remembered-objects.ts";
import { ArtifactStore } from "../storage/files/artifact-store.ts";
import { FileStore } from "../storage/files/file-store.ts";
import { SkillFiles } from "../storage/files/skill-files.ts";
import type { ObjectStore } from "../storage/objects/object-store.ts";
import type { StoreConfig } from "../storage/store/config.ts";
import type { Store } from "../storage/store/store.ts";
import { ThreadKeys } from "../storage/tables/thread-keys.ts";
import {
  type LoadedPlugin,
  pluginContextSources,
  pluginControls,
  pluginCorpora,
  pluginDetectors,
  pluginExtensions,
  pluginHooks,
  pluginInputControls,
  pluginManifests,
  pluginMetrics,
  pluginOutbox,
  pluginPatterns,
  pluginProviders,
  pluginStepKinds,
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
export type ActorDeps = AuditDeps &
  CommandsDeps &
  DeliveryDeps &
  EmbedderDeps &
  DurableDeps &
  EvalsDeps &
  JobsDeps &
  LimiterDeps &
  ManifestsDeps &
  MemoryDeps &
  NodeDeps &
  PatternDeps &
  SkillJobsDeps &
  ThreadDeps &
  WorkflowDeps &
  WorkspaceDeps & {
    readonly mcp: McpConnections;
    readonly processes: Processes;
    readonly gitProxy: GitProxy;
    readonly objects: ObjectStore;
    readonly browsers: BrowserProcess;
  };

/** The built-in actor kinds. */
export const actorKinds = [
  auditActor,
  commandsActor,
  deliveryActor,
  embedderActor,
  durableActor,
  evalsActor,
  jobsActor,
  limiterActor,
  manifestsActor,
  memoryActor,
  nodeActor,
  recallActor,
  runActor,
  skillJobsActor,
  threadActor,
  workflowActor,
  workflowsActor,
  workspaceActor,
];

/** Max suspended runs that one node resumes at once (decision 87: the bound of resumes per node). */
const resumesMax = 256;
/** Max concurrent workspace requests of one tenant on one node. */
const workspacesMax = 4;
/** Max pages of stored texts that one node embeds at once. */
const indexingMax = 2;
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
  const models = createModels(settings, env, mask, pluginProviders(plugins));
  const textVectors = new TextVectors(embedderOf(settings, models), {
    ...{ env, bus, store },
    corpora: pluginCorpora(plugins),
  });
  const services = {
    ...{ env, settings, store, bus, log, mask, outgoing, secrets, textVectors },
    count: metrics.countOwn.bind(metrics),
    observe: metrics.observeOwn.bind(metrics),
  };
  const audit = new AuditLog(store, env, mask, settings.auditFlushSeconds, () =>
    metrics.count("svc_buffer_dropped_total", { buffer: "audit" }),
  );
  const freezes = new Freezes();
  const access = new StoredAccess();
  const readAccess = () =>
    access.read(store.system, { keys: settings.runtimeKeys, signIns: hasSignIn(settings) }, env.now());
  const liveRuns: LiveRuns = new SlotSet();
  const threads = config.actorNodes.length;
  const processes = new Processes(settings, env, outgoing);
  const mcp = new McpConnections({
    ...{ env, outgoing, processes, secrets, audit, metrics, log, threads },
    version: config.version,
  });
  const repoApi = new RepoApi(outgoing, settings);
  const connections = new Connections({ settings, store, env, mask, host: repoApi });
  const gitProxy = new GitProxy(env, settings);
  const checkouts = new Checkouts({
    ...{ env, store, settings, processes, proxy: gitProxy, connections, repoApi, audit, log, host: config.bootId },
  });
  const thread = Math.max(0, config.actorNodes.indexOf(nodeId(config.bootId, config.node)));
  const browsers = new BrowserProcess({ env, settings, log, thread, threads });
  const compute = new ComputePool(env);
  const toolSources = [
    clientToolSource,
    queueSource,
    httpToolSource,
    mcpSource(mcp, { env, audit, store, settings, compute, metrics }),
    peerSource,
    searchToolSource(settings),
    browserToolSource(settings, browsers),
    documentToolSource,
    imageToolSource(env),
    gatewayToolSource(settings),
    shellToolSource({ env, bus, host: config.bootId, processes, metrics, settings }),
    builtInSource,
    delegationSource,
    publishSource(bus),
    mergeTaskSource(bus),
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
  const objects = openObjects(settings, env, secrets);
  const texts = isBucket(settings) ? rememberedObjects(objects, env) : objects;
  const fromStore = settings.manifestSource === "store";
  const resolver = createResolver({
    env,
    store: fromStore ? store : null,
    objects: fromStore ? texts : null,
    directory: settings.manifestDir === "" ? null : settings.manifestDir,
    ofPlugins: pluginManifests(plugins),
  });
  const hostSkills = new HostSkills({ env, compute, settings, log });
  const skillFiles = new SkillFiles(objectsAreShared(settings) ? objects : null);
  const skills = new SkillCatalogs(hostSkills, skillFiles);
  const skillLibrary = new SkillLibrary({ env, compute, settings, mask, files: skillFiles, host: hostSkills });
  const slots = new FairSemaphore(deliveriesMax, deliveriesOfTenantMax);
  slots.stopped = !holds(settings, "worker");
  const monotonic = () => env.monotonic();
  const manifests = new ManifestLibrary(resolver, registries, texts, metrics, monotonic);
  const files = new FileStore(
    objectsAreShared(settings) ? objects : null,
    env,
    settings.attachmentsMaxBytesPerTenant,
    settings.tenantStoredBytes,
    settings.maxUploadBytes,
  );
  return {
    env,
    bus,
    settings,
    freezes,
    async readFreezes() {
      await freezes.read(store.system);
      for (const run of liveRuns) run.obeyFreezes?.();
    },
    access,
    readAccess,
    spending: new Spending(settings.budgets, access, settings.callerBudgets),
    store,
    models,
    tokens: new TokenCounter(env),
    vectors: new VectorMemory(),
    textVectors,
    indexing: new Semaphore(indexingMax),
    fixedDimensions: new Set(),
    contexts: new ContextMemory(getHeapStatistics().heap_size_limit / heapShare, env),
    prefixes: new KnownPrefixes(env),
    toolSources,
    toolSets: new ToolSets(toolSources, env, log, (source) =>
      metrics.count("svc_tool_sources_missing_total", { source }),
    ),
    outgoing,
    compute,
    skills,
    skillLibrary,
    detectors: new Detectors({ files: pluginDetectors(plugins, settings), env, compute, log }),
    controls: [
      ...builtInControls,
      freeze(freezes),
      ...pluginHooks(plugins, services),
      ...pluginControls(plugins, services),
    ],
    inputControls: [...builtInInputControls, ...pluginInputControls(plugins, services)],
    contextSources: [
      ...builtInContextSources,
      skillsSource(skills),
      proceduresSource({ env, host: config.bootId, textVectors }),
      ...(settings.loadAgentsMd ? [agentsFileSource(settings)] : []),
      ...pluginContextSources(plugins, services),
    ],
    patterns,
    stepKinds: new Map([...builtInKinds, ...pluginStepKinds(plugins, services)].map((kind) => [kind.kind, kind])),
    redis: settings.redisUrl === "" ? null : new Redis(readRedisUrl(settings.redisUrl), env, log),
    resumes: new Semaphore(resumesMax),
    workspaceSemaphores: new TenantSemaphores(workspacesMax),
    manifests,
    cards: new ModelCards(manifests, texts),
    files,
    artifacts: new ArtifactStore(objectsAreShared(settings) ? objects : null, env, settings.tenantStoredBytes),
    threadKeys: new ThreadKeys(store),
    audit,
    mcp,
    processes,
    checkouts,
    gitProxy,
    browsers,
    metrics,
    tracer: tracerOf(settings, env),
    objects,
    pace: new TextPace(env),
    mask,
    log,
    secrets,
    webhookEgress: egress,
    hookAgent: `svc-hooks/${config.version}`,
    webhookAgent: `svc-webhooks/${config.version}`,
    slots,
    outboxKinds: pluginOutbox(plugins, { ...services, secrets, outgoing, files }),
    liveRuns,
    heardRuns: new SlotSet(),
    unconfirmed: new UnconfirmedLogs(bus, env),
    unpublished: new UnpublishedEvents(bus),
    tokenPrefetches: new Set(),
    unreadyRuns: () => unreadyRuns({ store, manifests, models }),
    host: config.bootId,
    owner: `${config.bootId}:${config.node}:${config.incarnation}`,
  };
}
