import type { Logger } from "pino";
import { type Env, systemEnv } from "../bus/env.ts";
import type { SvcError } from "../bus/errors.ts";
import { createLogger } from "../governance/log.ts";
import { openObjects } from "../governance/objects/open-objects.ts";
import { SecretMask, Secrets } from "../governance/secret-mask.ts";
import { clusterConfigOf } from "../governance/settings/cluster-settings.ts";
import { holds } from "../governance/settings/duties.ts";
import { isBucket } from "../governance/settings/object-store-config.ts";
import { atPlace, databasePlace, dataPlace, objectsPlace } from "../governance/settings/places.ts";
import { type Settings, withoutSigningKey } from "../governance/settings/settings.ts";
import { storeConfigOf } from "../governance/settings/store-config.ts";
import { chooseEngine } from "../http/engines/choose.ts";
import { migrate, refuseUnusable } from "../storage/migrate.ts";
import { loadSdk } from "../storage/objects/s3.ts";
import { prepareVectorIndex } from "../storage/postgres/vector-index.ts";
import { lockDataDir } from "../storage/sqlite/data-dir-lock.ts";
import { allMigrations } from "./all-migrations.ts";
import { announce } from "./announce.ts";
import { withStoredAuditKey } from "./audit-key.ts";
import { BackgroundWork } from "./background-work.ts";
import type { Boot, ServeOptions } from "./boot.ts";
import { EndedInBoot, unlessEnded } from "./boot-end.ts";
import { readSharedPlaces, type SharedPlaces } from "./cluster/shared-places.ts";
import type { LoadedPlugin } from "./plugin-seams.ts";
import { importPlugins, pluginsOf } from "./plugins.ts";
import { probePort } from "./port.ts";
import { ServerThreads } from "./server-threads.ts";
import { withStoredTokenKey } from "./token-key.ts";

// `svc serve`: locks the data directory, migrates the schema, starts the threads, cleans up after a crash, and listens. At the
// end it drains live turns.

/** Runs a server until it is asked to stop, possibly before it is ready. Rejects if it cannot start or continue. */
export async function serve(given: Settings, options: ServeOptions): Promise<void> {
  const settings = withoutSigningKey(given);
  const env = systemEnv(settings.testClockOffsetMs);
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
  for (const [name, port] of ownPorts(settings, options))
    await unlessEnded(stop, () => probePort(settings.host, port, name));
  const sqlite = config.engine === "sqlite";
  const plugins = await unlessEnded(stop, () => importPlugins(pluginsOf(settings)));
  const lock = sqlite ? await atPlace(dataPlace(settings), () => lockDataDir(settings.dataDir)) : null;
  try {
    await unlessEnded(stop, () => atPlace(databasePlace(settings), () => refuseUnusable(config)));
    // On Postgres the operator migrates, because other processes may be running. On SQLite the migration is awaited under the
    // lock, so it checks for the stop signal itself.
    if (sqlite) await migrateUnlessEnded(settings, plugins, env, stop);
    const places = await unlessEnded(stop, () => tryObjects(settings, env, log));
    if (config.engine === "postgres" && settings.memoryEmbedder !== "none")
      await unlessEnded(stop, () => prepareVectorIndex(config.postgres, settings.memoryEmbeddingDim));
    const keyed = await atPlace(dataPlace(settings), () =>
      withStoredTokenKey(withStoredAuditKey(settings, env, log), env),
    );
    await run({ settings: keyed, plugins, options, env, log, engine, places });
  } finally {
    lock?.release();
  }
}

/** Returns the ports that no other process may use, with their settings. */
function ownPorts(settings: Settings, { sharesPort = false }: ServeOptions): [string, number][] {
  if (sharesPort) return [];
  const ports: [string, number][] = [];
  if (holds(settings, "api")) ports.push(["SVC_PORT", settings.port]);
  if (settings.metricsPort !== 0) ports.push(["SVC_METRICS_PORT", settings.metricsPort]);
  return ports;
}

/**
 * Opens the object store, because an error inside a thread would not name the setting. A bucket that cannot be used now is a
 * warning: it may be available later, and /ready reports it until then. Returns the ids of what hosts of a cluster share.
 */
async function tryObjects(settings: Settings, env: Env, log: Logger): Promise<SharedPlaces | null> {
  const place = objectsPlace(settings);
  if (settings.objectStore === "s3") await atPlace(place, loadSdk);
  const objects = await atPlace(place, () => openObjects(settings, env, new Secrets(settings, new SecretMask([]))));
  if (isBucket(settings))
    await objects.check().catch((error: SvcError) => {
      log.warn({ err: error.cause ?? error }, `${place.setting}: the bucket ${place.path} cannot be used now`);
    });
  const isCluster = clusterConfigOf(settings) !== null;
  const places = isCluster ? await readSharedPlaces(settings, objects, env, log) : null;
  await objects.close();
  return places;
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

/** Starts the threads, becomes ready, serves until the stop, and drains. */
async function run(boot: Boot): Promise<void> {
  const { log } = boot;
  let work: BackgroundWork | null = null;
  const threads = new ServerThreads(boot, {
    onReplaced: (worker) => work?.closeRunsOf(worker),
    runTask: async (name) => work?.runTask(name) ?? "stopped",
    onTask: async (task) => work?.onTask(task) ?? { answer: "stopped", pause_ms: 1_000 },
    publishesShared: () => work?.publishesShared ?? false,
  });
  await threads.start();
  work = new BackgroundWork(boot, threads);
  const isReady = await becomeReady(boot, threads, work).then(
    () => true,
    (error: unknown) => {
      if (error instanceof EndedInBoot) return false;
      throw error;
    },
  );
  await untilStopped(boot, threads, isReady);
  log.info("draining");
  work.stop();
  await threads.stopAccepting();
  await threads.stop((isWritten) => work.leave(isWritten));
  log.info("stopped");
}

/** Finishes the work of an earlier process, listens, and starts the periodic work. */
async function becomeReady(boot: Boot, threads: ServerThreads, work: BackgroundWork): Promise<void> {
  const { settings, options } = boot;
  const isMigrated = await work.prepare();
  const port = await Promise.race([threads.listen(), threads.fatal]);
  const url =
    port === null ? "" : `http://${settings.host.includes(":") ? `[${settings.host}]` : settings.host}:${port}`;
  work.startTasks(isMigrated);
  announce(boot, url, threads.counts);
  work.watch(isMigrated);
  options.parent?.send({ kind: "ready" });
  options.onReady?.({ url, system: threads.system });
}

/** Waits for the stop, then for the drain delay of a ready server. Rejects if the server cannot continue. */
async function untilStopped({ settings, options, env, log }: Boot, threads: ServerThreads, isReady: boolean) {
  try {
    await Promise.race([threads.fatal, stopped(options.stop)]);
    const delayMs = isReady ? settings.drainDelaySeconds * 1000 : 0;
    if (delayMs === 0) return;
    log.info(
      { delay_seconds: settings.drainDelaySeconds },
      "stop requested: still serving during the drain delay, /ready answers draining",
    );
    threads.announceEnd();
    await Promise.race([threads.fatal, new Promise<void>((resolve) => env.timer(delayMs, resolve))]);
  } catch (error) {
    log.fatal({ err: error }, "the server stops after a fatal error");
    throw error;
  }
}

function stopped(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
