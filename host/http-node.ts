import type { MessagePort } from "node:worker_threads";
import { Bus, type Delivery } from "../bus/bus.ts";
import { breathe, type Env } from "../bus/env.ts";
import { SvcError } from "../bus/errors.ts";
import { portTransport } from "../bus/ports.ts";
import { type NodeId, nodeId } from "../bus/protocol/node-id.ts";
import { SlotSet } from "../bus/slot-map.ts";
import { createAuthenticator } from "../governance/auth/authenticator.ts";
import { Redis } from "../governance/egress/redis.ts";
import { createLogger } from "../governance/log.ts";
import { type MetricSnapshot, Metrics } from "../governance/metrics.ts";
import { SecretMask } from "../governance/secret-mask.ts";
import { objectStoreConfigOf, objectsAreShared } from "../governance/settings/object-store-config.ts";
import { readRedisUrl } from "../governance/settings/redis-place.ts";
import type { Settings } from "../governance/settings/settings.ts";
import { storeConfigOf } from "../governance/settings/store-config.ts";
import { createApp } from "../http/app.ts";
import { Backlogs } from "../http/backlog/backlogs.ts";
import type { HttpContext, TaskAnswer } from "../http/context.ts";
import { DurableAgents } from "../http/early-listener.ts";
import { EmbeddingQueue } from "../http/embedding-queue.ts";
import { chooseEngine } from "../http/engines/choose.ts";
import type { Listener } from "../http/engines/engine.ts";
import { StreamRegistry } from "../http/exchange/sse.ts";
import { Probe } from "../http/probe.ts";
import { allRoutes } from "../http/routes/all.ts";
import { ThreadFanOut } from "../http/thread-fan-out.ts";
import { openStore } from "../storage/client.ts";
import { ArtifactStore } from "../storage/files/artifact-store.ts";
import { FileStore } from "../storage/files/file-store.ts";
import { openObjectStore } from "../storage/objects/open.ts";
import { isSchemaBehind } from "../storage/tables/schema-revisions.ts";
import { allMigrations } from "./all-migrations.ts";
import { type LoadedPlugin, pluginRoutes } from "./plugin-seams.ts";

/** The configuration of an HTTP thread; cloned to it when it starts. */
export interface HttpNodeConfig {
  readonly node: number;
  readonly actorNodes: readonly NodeId[];
  /** Id of this process among the hosts; random and new at every start. */
  readonly bootId: string;
  /** Number of threads that share the limits of the process. */
  readonly httpThreads: number;
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
  connect(node: NodeId, port: MessagePort): void;
  lost(node: NodeId): void;
  /** Listens on the port and returns it. Rejects if that fails. */
  listen(port: number): Promise<number>;
  metrics(): MetricSnapshot;
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
  const bus: Bus = new Bus({
    env,
    node: nodeId(config.bootId, config.node),
    incarnation: 0,
    actorNodes: config.actorNodes,
    // A node without actors receives no messages for them; refuse any that arrive.
    deliver: deliver ?? ((delivery) => bus.refuse(delivery, new SvcError("not_found"))),
  });
  const store = openStore(env, storeConfigOf(settings), storePort);
  const migrations = allMigrations(plugins);
  const waitingMax = settings.streamBufferBytes / config.httpThreads;
  const streams = new StreamRegistry(waitingMax, () => env.monotonic());
  const backlogs = new Backlogs(env, waitingMax);
  streams.shared = () => backlogs.bytes;
  const metrics = new Metrics();
  const mask = new SecretMask(settings.secretValues);
  let draining = false;
  let closing = false;
  const objects = openObjectStore(objectStoreConfigOf(settings), env);
  const log = createLogger(settings, mask, { node: config.node });
  const redis = settings.redisUrl === "" ? null : new Redis(readRedisUrl(settings.redisUrl), env, log);
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
    redis,
    streams,
    fanOut: new ThreadFanOut(bus),
    durableAgents: new DurableAgents(),
    backlogs,
    embeddings: new EmbeddingQueue(env),
    turns: new SlotSet(),
    reattached: new SlotSet(),
    metrics,
    mask,
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
  const onRequest = createApp(allRoutes(settings, pluginRoutes(plugins)), context, createAuthenticator(settings, env));
  let listener: Listener | null = null;
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

  return {
    bus,
    context,
    connect: (node, port) => bus.connect(node, portTransport(port)),
    lost: (node) => bus.lost(node),
    async listen(port) {
      const engine = await chooseEngine(settings.httpEngine);
      const options = {
        host: settings.host,
        port,
        shared: config.httpThreads > 1,
        trustedHeader: settings.trustedClientIpHeader,
        headBytesMax: settings.httpMaxHeaderBytes,
      };
      listener = await engine.listen(options, env, streams, onRequest);
      return listener.port;
    },
    metrics() {
      metrics.count("svc_slow_streams_closed_total", {}, streams.droppedCount);
      streams.droppedCount = 0;
      metrics.count("svc_history_pages_total", [], backlogs.takeMadeCount());
      return metrics.snapshot();
    },
    announceEnd() {
      draining = true;
    },
    stopAccepting() {
      draining = true;
      closing = true;
      listener?.stopAccepting();
    },
    async answerAll(graceMs) {
      await settled(lastWordsMs, () => context.turns.size === 0);
      for (const turn of context.turns) turn.fail(new SvcError("shutting_down"));
      await settled(Math.max(lastWordsMs, graceMs), () => (listener?.unanswered() ?? 0) === 0);
      // Let responses leave before their connections close.
      await breathe(env);
    },
    close() {
      closed = true;
      streams.endAll();
      listener?.close();
      redis?.close();
      store.close();
    },
  };
}
