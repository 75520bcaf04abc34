import { type AddressInfo, createServer } from "node:net";
import { availableParallelism } from "node:os";
import { MessageChannel, Worker } from "node:worker_threads";
import { expose, type Remote, transfer, wrap } from "comlink";
import nodeEndpoint from "comlink/dist/esm/node-adapter.mjs";
import type { Logger } from "pino";
import { nextTime } from "../actors/jobs/schedule.ts";
import { describeDefault } from "../actors/models/create-models.ts";
import { type Env, systemEnv } from "../bus/env.ts";
import { type NodeId, nodeId } from "../bus/protocol/node-id.ts";
import { createLogger } from "../governance/log.ts";
import type { MetricSnapshot } from "../governance/metrics.ts";
import { SecretMask } from "../governance/secret-mask.ts";
import { bootWarnings } from "../governance/settings/boot-refusals.ts";
import { objectStoreConfigOf } from "../governance/settings/object-store-config.ts";
import { atPlace, databasePlace, dataPlace, objectsPlace } from "../governance/settings/places.ts";
import { type Settings, withoutSigningKey } from "../governance/settings/settings.ts";
import { storeConfigOf } from "../governance/settings/store-config.ts";
import { chooseEngine, type Engine } from "../http/engines/choose.ts";
import { migrate, refuseUnusable } from "../storage/migrate.ts";
import { openObjectStore } from "../storage/objects/open.ts";
import { lockDataDir } from "../storage/sqlite/data-dir-lock.ts";
import { type Backlog, backlog } from "../storage/tables/backlog.ts";
import { oldestDeliveryMs } from "../storage/tables/deliveries.ts";
import { carryOutRestore } from "../storage/tables/held-runs.ts";
import { type Actors, startActors } from "./actor-node.ts";
import { allMigrations } from "./all-migrations.ts";
import { EndedInBoot, unlessEnded } from "./boot-end.ts";
import { warningsOfDuties } from "./duties.ts";
import { warningOfAnonymous } from "./expecting-anonymous.ts";
import { HostLease } from "./host-lease.ts";
import { createHttpNode, type HttpNode, type HttpNodeConfig, type MainControl } from "./http-node.ts";
import type { HttpControl } from "./http-worker.ts";
import { isWrittenInTime } from "./last-writes.ts";
import { watchManifests } from "./manifest-watch.ts";
import { periodicTasks } from "./periodic-tasks.ts";
import { type LoadedPlugin, pluginProviders, pluginTasks } from "./plugin-seams.ts";
import { importPlugins } from "./plugins.ts";
import { AbandonedRuns } from "./recovery.ts";
import { warningsOfScopes } from "./scope-warnings.ts";
import { ActorSystem } from "./system.ts";
import { type RunningTasks, startTasks } from "./task-runner.ts";
import { cronTicks } from "./ticks.ts";
import { warningsOfDotEnv } from "./unread-dotenv.ts";
import { warnOfUnreadyRuns } from "./unready-runs.ts";
import { threadCounts } from "./worker-counts.ts";

// `svc serve`: locks the data directory, migrates the schema, starts the threads, cleans up after a crash, and listens. At the
// end it drains live turns.

/** Options of a server beyond its settings. */
export interface ServeOptions {
  readonly version: string;
  /** Asks the server to drain and stop. */
  readonly stop: AbortSignal;
  /** True if log lines go to a terminal. */
  readonly terminal?: boolean;
  /** Number of processors to use; by default those of the machine. */
  readonly cores?: number;
  /** Called when the server accepts requests. */
  readonly onReady?: (server: RunningServer) => void;
}

/** A server that accepts requests. */
export interface RunningServer {
  readonly url: string;
  readonly system: ActorSystem;
}

/** Runs a server until it is asked to stop, possibly before it is ready. Rejects if it cannot start or continue. */
export async function serve(given: Settings, options: ServeOptions): Promise<void> {
  const settings = withoutSigningKey(given);
  const env = systemEnv();
  const mask = new SecretMask(settings.secretValues);
  const log = createLogger(settings, mask, {}, options.terminal);
  try {
    await bootAndRun(settings, options, env, log);
  } catch (error) {
    if (!(error instanceof EndedInBoot)) throw error;
    log.info("stopped before it was ready");
  }
}

async function bootAndRun(settings: Settings, options: ServeOptions, env: Env, log: Logger): Promise<void> {
  const { stop } = options;
  const config = storeConfigOf(settings);
  const engine = await unlessEnded(stop, () => chooseEngine(settings.httpEngine));
  await unlessEnded(stop, () => probePort(settings.host, settings.port));
  const sqlite = config.engine === "sqlite";
  const plugins = await unlessEnded(stop, () => importPlugins(settings.plugins));
  const lock = sqlite ? await atPlace(dataPlace(settings), () => lockDataDir(settings.dataDir)) : null;
  try {
    await unlessEnded(stop, () => atPlace(databasePlace(settings), () => refuseUnusable(config)));
    // On Postgres the operator migrates, because other processes may be running. On SQLite the migration is awaited under the
    // lock, so it checks for the stop signal itself.
    if (sqlite) await migrateUnlessEnded(settings, plugins, env, stop);
    // Open the object store here first, because an error inside a thread would not name the setting.
    await unlessEnded(stop, () =>
      atPlace(objectsPlace(settings), () => openObjectStore(objectStoreConfigOf(settings), env)),
    );
    await run(settings, plugins, options, env, log, engine);
  } finally {
    lock?.release();
  }
}

/** Migrates step by step, and stops between two steps if the server is asked to stop. */
async function migrateUnlessEnded(
  settings: Settings,
  plugins: readonly LoadedPlugin[],
  env: Env,
  stop: AbortSignal,
): Promise<void> {
  // A SQLite step blocks this thread, so signals are handled between two steps.
  const pause = (): Promise<void> => unlessEnded(stop, () => new Promise((resolve) => env.defer(resolve)));
  try {
    const options = { target: "head", downgrade: false, pause };
    await atPlace(databasePlace(settings), () => migrate(storeConfigOf(settings), options, allMigrations(plugins)));
  } catch (error) {
    throw stop.aborted ? new EndedInBoot() : error;
  }
}

async function run(
  settings: Settings,
  plugins: readonly LoadedPlugin[],
  options: ServeOptions,
  env: Env,
  log: Logger,
  engine: Engine,
): Promise<void> {
  const counts = threadCounts(settings, options.cores ?? availableParallelism());
  const bootId = env.id().slice(0, 16);
  const httpWorkers = counts.http > 1 ? counts.http : 0;
  const threadNodes = Array.from({ length: counts.actors }, (_, index) => 1 + httpWorkers + index);
  const actorNodes = (threadNodes.length > 0 ? threadNodes : [0]).map((node) => nodeId(bootId, node));
  const fatal = Promise.withResolvers<never>();
  fatal.promise.catch(() => {});
  const system = new ActorSystem({
    env,
    settings,
    bootId,
    version: options.version,
    log,
    threads: threadNodes,
    actorNodes,
    onFatal: (error) => fatal.reject(error),
    onReplaced: (owner) => void abandoned.close({ worker: owner }),
  });
  try {
    await unlessEnded(options.stop, () => atPlace(databasePlace(settings), () => system.store.ready));
    await unlessEnded(options.stop, () => Promise.race([system.start(), fatal.promise]));
  } catch (error) {
    await system.abandon();
    throw error;
  }

  const workers: HttpWorker[] = [];
  let oldestDelivery = 0;
  let known: Backlog | null = null;
  const allMetrics = async (): Promise<readonly MetricSnapshot[]> => {
    // If the store is unavailable, report the last known values.
    const { system: tables } = main.context.store;
    [oldestDelivery, known] = await Promise.all([
      oldestDeliveryMs(tables).catch(() => oldestDelivery),
      backlog(tables).catch(() => known),
    ]);
    return [
      ...(await system.metrics()),
      ...(actors ? [actors.metrics()] : []),
      main.metrics(),
      ...(await Promise.all(workers.map((worker) => worker.control.metrics()))),
    ];
  };
  let tasks: RunningTasks | null = null;
  const mainControl: MainControl = {
    allMetrics,
    runTask: async (name) => (tasks === null ? "stopped" : tasks.run(name)),
  };
  const nodeConfig = (node: number): HttpNodeConfig => ({
    node,
    actorNodes,
    bootId,
    httpThreads: counts.http,
    settings,
    version: options.version,
    startedAt: env.now(),
  });
  const main = createHttpNode(nodeConfig(0), env, system.store.attach(), plugins, mainControl, (delivery) =>
    actors?.deliver(delivery),
  );
  const actors: Actors | null =
    threadNodes.length > 0
      ? null
      : startActors(
          {
            node: 0,
            actorNodes,
            settings,
            store: storeConfigOf(settings),
            bootId,
            incarnation: 0,
            version: options.version,
          },
          env,
          main.context.store,
          main.bus,
          plugins,
        );
  const { metrics } = main.context;
  metrics.gauge("svc_webhook_oldest_seconds", () => oldestDelivery / 1000);
  metrics.gauge("svc_durable_queued", () => known?.queued ?? 0);
  metrics.gauge("svc_durable_running", () => known?.running ?? 0);
  metrics.gauge("svc_durable_parked", () => known?.parked ?? 0);
  metrics.gauge("svc_durable_oldest_run_seconds", () => (known?.oldestRunMs ?? 0) / 1000);
  metrics.gauge("svc_durable_oldest_due_seconds", () => (known?.oldestDueMs ?? 0) / 1000);
  metrics.gauge("svc_oldest_wait_seconds", () => (known?.oldestWaitMs ?? 0) / 1000);
  system.join({ node: 0, connect: main.connect, lost: main.lost });
  for (let node = 1; node <= httpWorkers; node++)
    workers.push(startHttpWorker(nodeConfig(node), system, mainControl, (error) => fatal.reject(error)));

  const abandoned = new AbandonedRuns(main.bus, main.context.store, env, log);
  const lease = new HostLease({
    store: main.context.store.system,
    host: bootId,
    // The lock of the data directory or of the database guarantees this.
    alone: true,
    renewed: storeConfigOf(settings).engine === "postgres",
    log,
    onGone: () => abandoned.close({ hostsBut: bootId }),
    onLost: (error) => fatal.reject(error),
  });
  /** Finishes a restore before any other work starts. */
  const carryOut = async (): Promise<void> => {
    const held = await carryOutRestore(main.context.store, nextTime);
    if (held === null) return;
    log.warn(
      { held },
      `the database was restored: ${held} durable runs are held until \`svc runs release\` releases them`,
    );
  };
  const becomeReady = async (): Promise<void> => {
    const isBehind = await unlessEnded(options.stop, () => main.context.schemaBehind().catch(() => false));
    if (isBehind)
      log.warn(
        "the database lacks migrations of this version: run `svc migrate`; until then /ready is 503, and no periodic work is done",
      );
    else {
      await unlessEnded(options.stop, carryOut);
      await unlessEnded(options.stop, () => lease.keep());
    }
    const port = await Promise.race([listenAll(main, workers, settings), fatal.promise]);
    const url = `http://${settings.host.includes(":") ? `[${settings.host}]` : settings.host}:${port}`;
    const { files, redis, mask, store } = main.context;
    const services = { env, settings, store, bus: main.bus, log, mask };
    const allTasks = [
      ...periodicTasks({
        ...services,
        ...{ lease, files, redis, host: bootId },
        flush: async (what) =>
          (await Promise.all([system.flush(what), actors?.flush(what)])).every((all) => all !== false),
      }),
      ...pluginTasks(plugins, services),
    ];
    const untilMigrated = async (): Promise<boolean> => {
      const isStillBehind = await main.context.schemaBehind().catch(() => true);
      if (isStillBehind) return true;
      log.info("the database has the migrations of this version");
      return carryOut().then(
        () => false,
        (error: unknown) => {
          log.warn({ err: error }, "the follow-up work of a restore failed; the next start tries again");
          return true;
        },
      );
    };
    // Without its tables each task, including the lease, would fail and log repeatedly, so hold all tasks until the migration.
    tasks = startTasks(allTasks, env, log, settings, isBehind ? untilMigrated : null, cronTicks);
    log.info({ http_engine: engine.name }, engine.why);
    announce(url, settings, plugins, env, log, counts);
    if (!isBehind) void warnOfUnreadyRuns(main.bus, actorNodes[0] as NodeId, log);
    void warningOfAnonymous(settings, services.store, () => env.now()).then(
      (warning) => warning !== null && log.warn(warning),
      (error: unknown) => log.warn({ err: error }, "the check for manifests that expect anonymous callers failed"),
    );
    if (settings.manifestDir !== "") unwatch = watchManifests(settings.manifestDir, { env, bus: main.bus, log });
    options.onReady?.({ url, system });
  };
  let unwatch = (): void => {};
  const isReady = await becomeReady().then(
    () => true,
    (error: unknown) => {
      if (error instanceof EndedInBoot) return false;
      throw error;
    },
  );

  try {
    await Promise.race([fatal.promise, stopped(options.stop)]);
    const delayMs = isReady ? settings.drainDelaySeconds * 1000 : 0;
    if (delayMs > 0) {
      log.info(
        { delay_seconds: settings.drainDelaySeconds },
        "stop requested: still serving during the drain delay, /ready answers draining",
      );
      main.announceEnd();
      for (const worker of workers) void worker.control.announceEnd();
      await Promise.race([fatal.promise, new Promise<void>((resolve) => env.timer(delayMs, resolve))]);
    }
  } catch (error) {
    log.fatal({ err: error }, "the server stops after a fatal error");
    throw error;
  }
  log.info("draining");
  unwatch();
  (tasks as RunningTasks | null)?.stop();
  abandoned.stop();
  main.stopAccepting();
  for (const worker of workers) await worker.control.stopAccepting();
  const graceMs = settings.gracefulShutdownSeconds * 1000;
  const graceUntil = env.monotonic() + graceMs;
  await system.stop(graceMs, async (isWritten) => {
    const areOwnWritten = (await actors?.drain(graceMs)) ?? true;
    const leftMs = graceUntil - env.monotonic();
    await Promise.all([main.answerAll(leftMs), ...workers.map((worker) => worker.control.answerAll(leftMs))]);
    // Non-turn requests have audit rows too, so flush again. If the store failed before, do not wait again; the lease then
    // expires by itself.
    const isLeft =
      isWritten && areOwnWritten && (await isWrittenInTime(env, [actors?.flush("audit"), system.flush("audit")]));
    actors?.close();
    if (isLeft) await lease.leave();
    else
      log.warn(
        "the store does not answer: the last audit rows may be missing, and the lease of this host expires by itself",
      );
    main.close();
    await Promise.all(workers.map((worker) => worker.control.close()));
  });
  for (const worker of workers) await worker.worker.terminate();
  log.info("stopped");
}

interface HttpWorker {
  readonly worker: Worker;
  readonly control: Remote<HttpControl>;
}

function startHttpWorker(
  config: HttpNodeConfig,
  system: ActorSystem,
  mainControl: MainControl,
  onFatal: (error: Error) => void,
): HttpWorker {
  const storePort = system.store.attach();
  const { port1, port2 } = new MessageChannel();
  expose(mainControl, nodeEndpoint(port1));
  const worker = new Worker(new URL("./http-worker.ts", import.meta.url), {
    name: `http-${config.node}`,
    workerData: { config, storePort, mainPort: port2 },
    transferList: [storePort, port2],
    execArgv: ["--import", new URL("../strip-types.js", import.meta.url).href],
  });
  worker.on("error", (error) => onFatal(error as Error));
  const control = wrap<HttpControl>(nodeEndpoint(worker));
  system.join({
    node: config.node,
    connect: (node, port) => void control.connect(node, transfer(port, [port])),
    lost: (node) => void control.lost(node),
  });
  return { worker, control };
}

/** A single HTTP thread listens alone; several share the port, and the kernel distributes connections. */
async function listenAll(main: HttpNode, workers: readonly HttpWorker[], { host, port }: Settings): Promise<number> {
  if (workers.length === 0) return main.listen(port);
  // With port 0, the kernel's choice for one thread could not be shared by the others, so choose a free port first.
  const shared = await probePort(host, port);
  for (const worker of workers) await worker.control.listen(shared);
  return shared;
}

function announce(
  url: string,
  settings: Settings,
  plugins: readonly LoadedPlugin[],
  env: Env,
  log: Logger,
  threads: { http: number; actors: number },
): void {
  const warnings = [
    ...bootWarnings(settings),
    ...warningsOfScopes(settings, plugins),
    ...warningsOfDuties(settings),
    ...warningsOfDotEnv(settings),
  ];
  for (const warning of warnings) log.warn(warning);
  const model = describeDefault(settings, env, pluginProviders(plugins));
  const names = plugins.map(({ plugin }) => plugin.name);
  log.info(
    { url, data_dir: settings.dataDir, model, threads, ...(names.length > 0 && { plugins: names }) },
    "svc is ready",
  );
  const auth = settings.authMode === "none" ? "" : ' -H "Authorization: Bearer $SVC_KEY"';
  log.info(
    `try: curl -N ${url}/chat/stream${auth} -H "Content-Type: application/json" -d '{"manifest":"${settings.defaultManifest}","messages":[{"role":"user","content":"What is 6 * 7?"}]}'`,
  );
}

function stopped(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** Returns why the port cannot be used, with the setting to change. */
function unheard(error: NodeJS.ErrnoException, host: string, port: number): string {
  if (error.code === "EADDRINUSE") return `port ${port} of ${host} is in use; set SVC_PORT to another`;
  if (error.code === "EACCES")
    return `port ${port} of ${host} needs more permissions than this user has; set SVC_PORT to another`;
  return `SVC_HOST: ${error.message}; it must be an address of this machine, without a port`;
}

/** Returns the port, or a free one for 0. Shared ports would also admit another process, so first check that the port is free. */
function probePort(host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", (error: NodeJS.ErrnoException) =>
      reject(new Error(unheard(error, host, port), { cause: error })),
    );
    probe.listen({ host, port, exclusive: true }, () => {
      const free = (probe.address() as AddressInfo).port;
      probe.close(() => resolve(free));
    });
  });
}
