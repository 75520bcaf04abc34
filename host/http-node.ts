import type { MessagePort } from "node:worker_threads";
import { createModels } from "../actors/models/create-models.ts";
import { embedderOf } from "../actors/models/deployment-embedder.ts";
import { Bus, type Delivery } from "../bus/bus.ts";
import { breathe, type Env } from "../bus/env.ts";
import { SvcError } from "../bus/errors.ts";
import { portTransport } from "../bus/ports.ts";
import type { TaskAnswer } from "../bus/protocol/host.ts";
import { type NodeId, nodeId } from "../bus/protocol/node-id.ts";
import { SlotSet } from "../bus/slot-map.ts";
import { createAuthenticator } from "../governance/auth/authenticator.ts";
import { KeyRing } from "../governance/auth/key-ring.ts";
import { ComputePool } from "../governance/compute/compute-pool.ts";
import { DocumentExtractor } from "../governance/documents/extractor.ts";
import { Outgoing } from "../governance/egress/outgoing.ts";
import { Redis } from "../governance/egress/redis.ts";
import { createLogger } from "../governance/log.ts";
import { type MetricSnapshot, Metrics } from "../governance/metrics.ts";
import { openObjects } from "../governance/objects/open-objects.ts";
import { Connections } from "../governance/repos/connections.ts";
import { RepoApi } from "../governance/repos/repo-api.ts";
import { SecretMask, Secrets } from "../governance/secret-mask.ts";
import { clusterConfigOf } from "../governance/settings/cluster-settings.ts";
import { objectsAreShared } from "../governance/settings/object-store-config.ts";
import { readRedisUrl } from "../governance/settings/redis-place.ts";
import type { Settings } from "../governance/settings/settings.ts";
import { hasSignIn } from "../governance/settings/sign-in-methods.ts";
import { storeConfigOf } from "../governance/settings/store-config.ts";
import { SignIn } from "../governance/sign-in/sign-in.ts";
import { HostSkills } from "../governance/skills/host-skills.ts";
import { ImportBudget } from "../governance/skills/import/budget.ts";
import { CodeHost } from "../governance/skills/import/code-host.ts";
import { SkillImports } from "../governance/skills/import/skill-imports.ts";
import { SkillLibrary } from "../governance/skills/library.ts";
import { noSpans, type SpanBatch, tracerOf } from "../governance/tracing/tracer.ts";
import { TextVectors } from "../governance/vectors/text-vectors.ts";
import { createApp } from "../http/app.ts";
import { Backlogs } from "../http/backlog/backlogs.ts";
import type { HttpContext } from "../http/context.ts";
import { DurableAgents } from "../http/early-listener.ts";
import { EmbeddingQueue } from "../http/embedding-queue.ts";
import { chooseEngine } from "../http/engines/choose.ts";
import type { Listener, OnRequest } from "../http/engines/engine.ts";
import { StreamRegistry } from "../http/exchange/sse.ts";
import { RateLimiter } from "../http/middleware/rate-limit.ts";
import { NewsFeeds } from "../http/news/news-feeds.ts";
import { Probe } from "../http/probe.ts";
import type { Route } from "../http/route.ts";
import { allRoutes } from "../http/routes/all.ts";
import { systemRoutes } from "../http/routes/system.ts";
import { ThreadFanOut } from "../http/thread-fan-out.ts";
import { WorkflowFeeds } from "../http/workflows/workflow-feeds.ts";
import { openStore } from "../storage/client.ts";
import { ArtifactStore } from "../storage/files/artifact-store.ts";
import { DocumentFiles } from "../storage/files/document-files.ts";
import { FileStore } from "../storage/files/file-store.ts";
import { SkillFiles } from "../storage/files/skill-files.ts";
import { isSchemaBehind } from "../storage/tables/schema-revisions.ts";
import { allMigrations } from "./all-migrations.ts";
import { protocolOf } from "./cluster/protocol.ts";
import { RemoteNode } from "./cluster/remote-node.ts";
import {
  type LoadedPlugin,
  pluginConsoles,
  pluginCorpora,
  pluginMetrics,
  pluginProviders,
  pluginRoutes,
} from "./plugin-seams.ts";

/** The configuration of an HTTP thread; cloned to it when it starts. */
export interface HttpNodeConfig {
  readonly node: number;
  readonly actorNodes: readonly NodeId[];
  /** Id of this process among the hosts; random and new at every start. */
  readonly bootId: string;
  /** Number of threads that share the limits of the process. */
  readonly httpThreads: number;
  /** True if other threads or processes listen on the same port. */
  readonly sharesPort: boolean;
  readonly settings: Settings;
  readonly version: string;
  readonly startedAt: number;
}

/** The calls of an HTTP thread to the main thread. */
export interface MainControl {
  allMetrics(): Promise<readonly MetricSnapshot[]>;
  runTask(name: string): Promise<TaskAnswer>;
}

/** A node that serves HTTP. */
export interface HttpNode {
  readonly bus: Bus;
  readonly context: HttpContext;
  /** The connections to other hosts; null outside a cluster. */
  readonly remote: RemoteNode | null;
  /** Connects the thread with other hosts, over the main thread. */
  joinCluster(port: MessagePort): void;
  connect(node: NodeId, port: MessagePort): void;
  lost(node: NodeId): void;
  /** Listens on the port and returns it. Rejects if that fails. */
  listen(port: number): Promise<number>;
  /** Listens on a port that has only the routes for operators. */
  listenForOperators(port: number): Promise<number>;
  metrics(): MetricSnapshot;
  /** Returns the spans since the last call. */
  spans(): SpanBatch;
  /** Makes /ready report draining, and continues to serve. */
  announceEnd(): void;
  /** Accepts no more connections, and refuses new turns on open ones. */
  stopAccepting(): void;
  /**
   * Resolves when the last frames of all runs are delivered and every request has its response. Requests other than turns get
   * `graceMs`.
   */
  answerAll(graceMs: number): Promise<void>;
  /** Closes all connections. */
  close(): void;
}

/** Interval of keep-alives and of the check for idle streams. */
const streamLookMs = 1_000;
/** Max wait for the final frames of runs; requests get at least this long too. Then the interval of the check. */
const lastWordsMs = 2_000;
const lastWordsLookMs = 5;

/** Creates a node that serves HTTP after `listen`. `deliver` receives messages for actors on this node, if it holds any. */
export function createHttpNode(
  config: HttpNodeConfig,
  env: Env,
  storePort: MessagePort,
  plugins: readonly LoadedPlugin[],
  { allMetrics, runTask }: MainControl,
  deliver?: (delivery: Delivery) => void,
): HttpNode {
  const { settings } = config;
  const remote = clusterConfigOf(settings) === null ? null : new RemoteNode(env, config.bootId, protocolOf(settings));
  const bus: Bus = new Bus({
    ...remote?.busOptions,
    env,
    node: nodeId(config.bootId, config.node),
    incarnation: 0,
    actorNodes: config.actorNodes,
    // A node without actors receives no messages for them; refuse any that arrive.
    deliver: deliver ?? ((delivery) => bus.refuse(delivery, new SvcError("not_found"))),
  });
  remote?.attach(bus);
  const store = openStore(env, storeConfigOf(settings), storePort);
  const migrations = allMigrations(plugins);
  const waitingMax = settings.streamBufferBytes / config.httpThreads;
  const streams = new StreamRegistry(waitingMax, () => env.monotonic());
  const backlogs = new Backlogs(env, waitingMax);
  streams.shared = () => backlogs.bytes;
  const metrics = new Metrics(pluginMetrics(plugins));
  const tracer = tracerOf(settings, env);
  const mask = new SecretMask(settings.secretValues);
  let draining = false;
  let closing = false;
  const secrets = new Secrets(settings, mask);
  const outgoing = new Outgoing({ settings, secrets, env, threads: config.httpThreads });
  const objects = openObjects(settings, env, secrets);
  const log = createLogger(settings, mask, { node: config.node });
  const redis = settings.redisUrl === "" ? null : new Redis(readRedisUrl(settings.redisUrl), env, log);
  const compute = new ComputePool(env);
  const skillLibrary = new SkillLibrary({
    ...{ env, compute, settings, mask },
    files: new SkillFiles(objectsAreShared(settings) ? objects : null),
    host: new HostSkills({ env, compute, settings, log }),
  });
  const repoApi = new RepoApi(outgoing, settings);
  const connections = new Connections({ settings, store, env, mask, host: repoApi });
  const models = createModels(settings, env, mask, pluginProviders(plugins));
  const keyRing = settings.runtimeKeys ? new KeyRing(store, settings, env) : null;
  const context: HttpContext = {
    env,
    settings,
    bus,
    store,
    objects,
    files: new FileStore(
      objectsAreShared(settings) ? objects : null,
      env,
      settings.attachmentsMaxBytesPerTenant,
      settings.tenantStoredBytes,
      settings.maxUploadBytes,
    ),
    artifacts: new ArtifactStore(objectsAreShared(settings) ? objects : null, env),
    documentFiles: new DocumentFiles(objectsAreShared(settings) ? objects : null, env, settings.tenantStoredBytes),
    skillLibrary,
    skillImports: new SkillImports({
      ...{ env, store, compute, settings, library: skillLibrary },
      host: new CodeHost({ env, outgoing, secrets, compute, settings }),
      budget: new ImportBudget(env, store, settings),
    }),
    compute,
    redis,
    keyRing,
    signIn: hasSignIn(settings) ? new SignIn({ settings, store, env, mask, log, outgoing, connections }) : null,
    ...{ repoApi, connections },
    streams,
    fanOut: new ThreadFanOut(bus),
    durableAgents: new DurableAgents(),
    backlogs,
    embeddings: new EmbeddingQueue(env),
    extractor: new DocumentExtractor(env),
    seesImages: models.seesImages,
    textVectors: new TextVectors(embedderOf(settings, models), {
      ...{ env, bus, store },
      corpora: pluginCorpora(plugins),
    }),
    rates: new RateLimiter(env, bus, settings.rateLimit > 0),
    turns: new SlotSet(),
    news: new NewsFeeds(env, bus),
    workflowFeeds: new WorkflowFeeds(bus),
    reattached: new SlotSet(),
    metrics,
    tracer,
    mask,
    outgoing,
    secrets,
    log,
    startedAt: config.startedAt,
    version: config.version,
    allMetrics,
    runTask,
    draining: () => draining,
    closing: () => closing,
    schemaBehind: () => isSchemaBehind(store.system, migrations),
    probes: {
      database: new Probe(env, async () => {
        await store.check();
        return (await context.schemaBehind()) ? "schema_behind" : null;
      }),
      object_store: new Probe(env, async () => {
        await objects.check();
        return null;
      }),
      redis:
        redis &&
        new Probe(env, async () => {
          await redis.check();
          return null;
        }),
    },
  };
  bus.onLost((node, cause) => {
    if (cause) context.log.error({ err: cause, node }, "a thread of the server failed and is not restarted");
    for (const turn of context.turns) turn.lost(node);
  });
  metrics.gauge("svc_open_streams", () => streams.size);
  metrics.gauge("svc_stream_waiting_bytes", () => streams.waiting + backlogs.bytes);
  metrics.gauge("svc_history_readers_waiting", () => backlogs.waiting);
  const authenticate = createAuthenticator(settings, env, { keys: keyRing, outgoing });
  const onRequest = createApp(
    allRoutes({ ...settings, signIn: settings }, pluginRoutes(plugins), pluginConsoles(plugins)),
    context,
    authenticate,
  );
  const listeners: Listener[] = [];
  let closed = false;

  function lookAtStreams(): void {
    if (closed) return;
    streams.keepAlive();
    for (const reattached of context.reattached) reattached.endWhenIdle();
    env.timer(streamLookMs, lookAtStreams);
  }
  env.timer(streamLookMs, lookAtStreams);

  async function settled(limitMs: number, isSettled: () => boolean): Promise<void> {
    for (const until = env.monotonic() + limitMs; !isSettled() && env.monotonic() < until; )
      await new Promise<void>((resolve) => env.timer(lastWordsLookMs, resolve));
  }

  async function listen(port: number, onRequest: OnRequest): Promise<number> {
    const engine = await chooseEngine(settings.httpEngine);
    const options = {
      host: settings.host,
      port,
      shared: config.sharesPort,
      trustedHeader: settings.trustedClientIpHeader,
      declaredHeaders: headersOf(pluginRoutes(plugins)),
      headBytesMax: settings.httpMaxHeaderBytes,
    };
    const listener = await engine.listen(options, env, streams, onRequest);
    listeners.push(listener);
    return listener.port;
  }

  return {
    bus,
    context,
    remote,
    joinCluster: (port) => remote?.connectPort(port),
    connect: (node, port) => bus.connect(node, portTransport(port)),
    lost: (node) => bus.lost(node),
    listen: (port) => listen(port, onRequest),
    listenForOperators: (port) => listen(port, createApp(systemRoutes, context, authenticate)),
    metrics() {
      metrics.count("svc_slow_streams_closed_total", {}, streams.droppedCount);
      streams.droppedCount = 0;
      metrics.count("svc_history_pages_total", [], backlogs.takeMadeCount());
      if (remote !== null) metrics.count("svc_cluster_refused_total", { reason: "session" }, remote.takeRefusedCount());
      return metrics.snapshot();
    },
    spans: () => tracer?.take() ?? noSpans,
    announceEnd() {
      draining = true;
    },
    stopAccepting() {
      draining = true;
      closing = true;
      for (const listener of listeners) listener.stopAccepting();
    },
    async answerAll(graceMs) {
      await settled(lastWordsMs, () => context.turns.size === 0);
      for (const turn of context.turns) turn.fail(new SvcError("shutting_down"));
      await settled(Math.max(lastWordsMs, graceMs), () => listeners.every((listener) => listener.unanswered() === 0));
      // Let responses leave before their connections close.
      await breathe(env);
    },
    close() {
      closed = true;
      streams.endAll();
      for (const listener of listeners) listener.close();
      redis?.close();
      void outgoing.close();
      void objects.close();
      context.compute.close();
      store.close();
    },
  };
}

/** Returns the names of the headers that routes declare. */
function headersOf(routes: readonly Route[]): string[] {
  return routes.flatMap(({ headers }) => Object.keys((headers as { properties?: object } | null)?.properties ?? {}));
}
