import type { MessagePort } from "node:worker_threads";
import type { Logger } from "pino";
import { endHeardRuns } from "../actors/run/context/suspended-runs.ts";
import { ActorHost } from "../actors/runtime/host.ts";
import { durableAddress } from "../bus/address.ts";
import { Bus, type Delivery } from "../bus/bus.ts";
import type { Env, Timer } from "../bus/env.ts";
import { portTransport } from "../bus/ports.ts";
import { type NodeId, nodeId } from "../bus/protocol/node-id.ts";
import type { MetricSnapshot } from "../governance/metrics.ts";
import { clusterConfigOf } from "../governance/settings/cluster-settings.ts";
import { hasSignIn } from "../governance/settings/sign-in-methods.ts";
import { noSpans, type SpanBatch } from "../governance/tracing/tracer.ts";
import { openStore } from "../storage/client.ts";
import type { Store } from "../storage/store/store.ts";
import { type ActorDeps, actorKinds, createActorDeps, type NodeConfig } from "./actor-deps.ts";
import { protocolOf } from "./cluster/protocol.ts";
import { RemoteNode } from "./cluster/remote-node.ts";
import { isWrittenInTime } from "./last-writes.ts";
import { type LoadedPlugin, pluginKinds } from "./plugin-seams.ts";

/** Kinds of rows that a node buffers in memory: audit rows, and the usage of turns without a thread. */
export type Flushed = "audit" | "usage";

/** The actors of one node. */
export interface Actors {
  /** Delivers a message to an actor. */
  deliver(delivery: Delivery): void;
  /**
   * Waits up to `graceMs` for live runs to end, then interrupts them. Resolves when none is left and the buffered rows are
   * written; false if the store rejected them.
   */
  drain(graceMs: number): Promise<boolean>;
  /** Writes the buffered rows. Returns false if the store did not accept all of them. */
  flush(what: Flushed): Promise<boolean>;
  metrics(): MetricSnapshot;
  /** Returns the spans since the last call. */
  spans(): SpanBatch;
  readonly log: Logger;
  /** Stops all timers and connections of the actors. */
  close(): void;
}

/** The interface of an actor thread to the main thread; comlink carries the calls. */
export interface NodeControl extends Pick<Actors, "drain" | "flush" | "metrics" | "spans"> {
  /** Connects to another node, or to the replacement of a lost one. */
  connect(node: NodeId, port: MessagePort): void;
  lost(node: NodeId): void;
  /** Connects the thread with other hosts, over the main thread. */
  joinCluster(port: MessagePort): void;
}

/** Interval at which a draining node checks whether its runs have ended. */
const drainLookMs = 20;
/** Interval at which a process looks for the freezes, keys and sign-ins that others have stored. */
const lookMs = 500;
/** Time for interrupted runs to write their last batch. */
const interruptMs = 5_000;

/** Starts a node that holds actors and serves no HTTP. */
export function startActorNode(
  config: NodeConfig,
  env: Env,
  storePort: MessagePort,
  plugins: readonly LoadedPlugin[],
): NodeControl {
  const remote =
    clusterConfigOf(config.settings) === null ? null : new RemoteNode(env, config.bootId, protocolOf(config.settings));
  const bus: Bus = new Bus({
    ...remote?.busOptions,
    env,
    node: nodeId(config.bootId, config.node),
    incarnation: config.incarnation,
    actorNodes: config.actorNodes,
    deliver: (delivery) => actors.deliver(delivery),
  });
  remote?.attach(bus);
  const actors = startActors(config, env, openStore(env, config.store, storePort), bus, plugins);
  bus.onLost((node, cause) => {
    if (cause) actors.log.error({ err: cause, node }, "a thread of the server failed and is not restarted");
  });
  return {
    connect: (node, port) => bus.connect(node, portTransport(port)),
    lost: (node) => bus.lost(node),
    joinCluster: (port) => remote?.connectPort(port),
    drain: actors.drain,
    flush: actors.flush,
    metrics: actors.metrics,
    spans: actors.spans,
  };
}

/** Starts the actors of a node that already has a bus. The bus must pass their messages to `deliver`. */
export function startActors(
  config: NodeConfig,
  env: Env,
  store: Store,
  bus: Bus,
  plugins: readonly LoadedPlugin[],
): Actors {
  const deps = createActorDeps(config, env, store, bus, plugins);
  const host = new ActorHost({
    env,
    bus,
    deps,
    definitions: [...actorKinds, ...pluginKinds(plugins)],
    onCrash(kind, key, error) {
      deps.metrics.count("svc_actor_crashes_total", { kind });
      deps.log.error({ err: error, kind, key }, "actor crashed");
    },
  });
  const unwatchAccess =
    deps.settings.runtimeKeys || hasSignIn(deps.settings) ? watch(deps.readAccess, env, true) : null;
  const unwatch = watch(
    deps.readFreezes,
    env,
    config.store.engine === "postgres" && config.store.postgres.shared === true,
  );
  deps.metrics.gauge("svc_actors", () => host.size);
  deps.metrics.gauge("svc_live_runs", () => deps.liveRuns.size);
  return {
    deliver: (delivery) => host.deliver(delivery),
    drain: (graceMs) => drain(deps, host, env, graceMs),
    flush: (what) => flush(deps, what),
    spans: () => deps.tracer?.take() ?? noSpans,
    log: deps.log,
    close() {
      unwatch();
      unwatchAccess?.();
      host.close();
      deps.tokens.close();
      deps.mcp.close();
      deps.processes.close();
      deps.browsers.close();
      void deps.gitProxy.close();
      deps.compute.close();
      void deps.outgoing.close();
      void deps.objects.close();
      deps.redis?.close();
    },
    metrics() {
      for (const kind of ["tell", "frame", "late_reply", "batch"] as const) {
        deps.metrics.count("svc_bus_dropped_total", { kind }, bus.dropped[kind]);
        bus.dropped[kind] = 0;
      }
      return deps.metrics.snapshot();
    },
  };
}

/** Calls `read` at the start, and again every half second if others may change what it reads, or if it failed. */
function watch(read: () => Promise<void>, env: Env, isShared: boolean): () => void {
  let timer: Timer | null = null;
  let closed = false;
  const look = (): void => {
    const again = (failed: boolean) => {
      if (!closed && (isShared || failed)) timer = env.timer(lookMs, look);
    };
    // After a failure the earlier answer stays in effect.
    void read().then(
      () => again(false),
      () => again(true),
    );
  };
  look();
  return () => {
    closed = true;
    timer?.cancel();
  };
}

async function drain(
  { liveRuns, heardRuns, audit, tokenPrefetches, slots, bus, log, host: hostId }: ActorDeps,
  host: ActorHost,
  env: Env,
  graceMs: number,
): Promise<boolean> {
  slots.stopped = true;
  bus.tell(durableAddress(hostId), "drain", {});
  // Check more than once: a turn requested before the signal may still become a run.
  const isQuiet = (): boolean => {
    // Durable runs are suspended after their current step.
    for (const run of liveRuns) run.drain?.();
    endHeardRuns(heardRuns);
    for (const holder of tokenPrefetches) void holder.leave();
    return liveRuns.size === 0 && host.busyCount() === 0;
  };
  if (!isQuiet() && liveRuns.size > 0)
    log.info(
      { turns: liveRuns.size, seconds_max: graceMs / 1_000 },
      "waiting for running turns; press Ctrl-C again to end them at once",
    );
  await until(env, graceMs, isQuiet);
  await until(env, interruptMs, () => {
    for (const run of liveRuns) run.abort("shutdown");
    return isQuiet();
  });
  host.refuseOtherHosts();
  return isWrittenInTime(env, [audit.flush(), ...[...tokenPrefetches].map((holder) => holder.leave())]);
}

async function flush({ audit, liveRuns }: ActorDeps, what: Flushed): Promise<boolean> {
  if (what === "audit") return audit.flush();
  const written = await Promise.allSettled([...liveRuns].map((run) => run.writeUsage?.()));
  return written.every(({ status }) => status === "fulfilled");
}

/** Resolves when `reached` returns true, or after `limitMs`. */
function until(env: Env, limitMs: number, reached: () => boolean): Promise<void> {
  const giveUpAt = env.monotonic() + limitMs;
  return new Promise((resolve) => {
    const look = (): void => {
      if (reached() || env.monotonic() >= giveUpAt) resolve();
      else env.timer(drainLookMs, look);
    };
    look();
  });
}
