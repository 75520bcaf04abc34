import { nextTime } from "../actors/jobs/schedule.ts";
import { storeConfigOf } from "../governance/settings/store-config.ts";
import type { TaskAnswer } from "../http/context.ts";
import { carryOutRestore } from "../storage/tables/held-runs.ts";
import type { Boot } from "./boot.ts";
import { unlessEnded } from "./boot-end.ts";
import { warningOfAnonymous } from "./expecting-anonymous.ts";
import { HostLease } from "./host-lease.ts";
import { watchManifests } from "./manifest-watch.ts";
import { periodicTasks } from "./periodic-tasks.ts";
import { pluginTasks } from "./plugin-seams.ts";
import { AbandonedRuns } from "./recovery.ts";
import type { ServerThreads } from "./server-threads.ts";
import { type RunningTasks, startTasks } from "./task-runner.ts";
import { cronTicks } from "./ticks.ts";
import { warnOfUnreadyRuns } from "./unready-runs.ts";

/** The work of a process that no request asks for: its lease, the recovery of lost runs, periodic tasks and watched manifests. */
export class BackgroundWork {
  readonly #boot: Boot;
  readonly #threads: ServerThreads;
  readonly #abandoned: AbandonedRuns;
  readonly #lease: HostLease;
  #tasks: RunningTasks | null = null;
  #unwatch = (): void => {};

  constructor(boot: Boot, threads: ServerThreads) {
    const { settings, env, log } = boot;
    const { bus, context } = threads.main;
    this.#boot = boot;
    this.#threads = threads;
    this.#abandoned = new AbandonedRuns(bus, context.store, env, log);
    this.#lease = new HostLease({
      store: context.store.system,
      host: threads.bootId,
      // The lock of the data directory or of the database guarantees this.
      alone: true,
      renewed: storeConfigOf(settings).engine === "postgres",
      log,
      onGone: () => this.#abandoned.close({ hostsBut: threads.bootId }),
      onLost: (error) => threads.fail(error),
    });
  }

  /** Finishes a restore and takes the lease, before any request. Returns false if the database lacks migrations. */
  async prepare(): Promise<boolean> {
    const { log, options } = this.#boot;
    const { context } = this.#threads.main;
    const isBehind = await unlessEnded(options.stop, () => context.schemaBehind().catch(() => false));
    if (isBehind) {
      log.warn(
        "the database lacks migrations of this version: run `svc migrate`; until then /ready is 503, and no periodic work is done",
      );
      return false;
    }
    await unlessEnded(options.stop, () => this.#finishRestore());
    await unlessEnded(options.stop, () => this.#lease.keep());
    return true;
  }

  /**
   * Starts the periodic tasks. Without its tables each task, including the lease, would fail and log repeatedly, so all tasks wait
   * for the migrations unless `isMigrated`.
   */
  startTasks(isMigrated: boolean): void {
    const { settings, env, log, plugins } = this.#boot;
    const { bus, context } = this.#threads.main;
    const { store, files, artifacts, redis, mask } = context;
    const services = { env, settings, store, bus, log, mask };
    const own = { lease: this.#lease, files, artifacts, redis, host: this.#threads.bootId };
    const tasks = [
      ...periodicTasks({ ...services, ...own, flush: (what) => this.#threads.flush(what) }),
      ...pluginTasks(plugins, services),
    ];
    this.#tasks = startTasks(tasks, env, log, settings, isMigrated ? null : () => this.#isBehind(), cronTicks);
  }

  /** Watches the folder of manifests, and warns of stored runs and manifests that the settings do not fit. */
  watch(isMigrated: boolean): void {
    const { settings, env, log } = this.#boot;
    const { bus, context } = this.#threads.main;
    if (isMigrated) void warnOfUnreadyRuns(bus, this.#threads.actorNode, log);
    void warningOfAnonymous(settings, context.store, () => env.now()).then(
      (warning) => warning !== null && log.warn(warning),
      (error: unknown) => log.warn({ err: error }, "the check for manifests that expect anonymous callers failed"),
    );
    if (settings.manifestDir !== "") this.#unwatch = watchManifests(settings.manifestDir, { env, bus, log });
  }

  /** Runs a periodic task now. */
  async runTask(name: string): Promise<TaskAnswer> {
    return this.#tasks === null ? "stopped" : this.#tasks.run(name);
  }

  /** Closes the runs of an actor thread that has died. */
  closeRunsOf(worker: string): void {
    void this.#abandoned.close({ worker });
  }

  /** Starts no more work. */
  stop(): void {
    this.#unwatch();
    this.#tasks?.stop();
    this.#abandoned.stop();
  }

  /** Gives up the lease. If the store does not answer, the lease expires by itself. */
  async leave(isWritten: boolean): Promise<void> {
    if (isWritten) return this.#lease.leave();
    this.#boot.log.warn(
      "the store does not answer: the last audit rows may be missing, and the lease of this host expires by itself",
    );
  }

  /** True while the database lacks migrations, or a restore is not finished. */
  async #isBehind(): Promise<boolean> {
    const { log } = this.#boot;
    const isStillBehind = await this.#threads.main.context.schemaBehind().catch(() => true);
    if (isStillBehind) return true;
    log.info("the database has the migrations of this version");
    return this.#finishRestore().then(
      () => false,
      (error: unknown) => {
        log.warn({ err: error }, "the follow-up work of a restore failed; the next start tries again");
        return true;
      },
    );
  }

  /** Finishes a restore before any other work starts. */
  async #finishRestore(): Promise<void> {
    const held = await carryOutRestore(this.#threads.main.context.store, nextTime);
    if (held === null) return;
    this.#boot.log.warn(
      { held },
      `the database was restored: ${held} durable runs are held until \`svc runs release\` releases them`,
    );
  }
}
