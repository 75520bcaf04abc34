import { nextTime } from "../actors/jobs/schedule.ts";
import { durableAddress, hostAddress } from "../bus/address.ts";
import type { TaskAnswer, TaskRun, WhyTask } from "../bus/protocol/host.ts";
import type { Body } from "../bus/protocol/kinds.ts";
import { clusterConfigOf } from "../governance/settings/cluster-settings.ts";
import { holds } from "../governance/settings/duties.ts";
import { storeConfigOf } from "../governance/settings/store-config.ts";
import { carryOutRestore } from "../storage/tables/held-runs.ts";
import { sealAtEnd } from "./audit-seals.ts";
import type { Boot } from "./boot.ts";
import { unlessEnded } from "./boot-end.ts";
import { hostCard } from "./cluster/host-card.ts";
import { Membership } from "./cluster/membership.ts";
import { warningOfAnonymous } from "./expecting-anonymous.ts";
import { HostLease, leaseMs } from "./host-lease.ts";
import { watchManifests } from "./manifest-watch.ts";
import { periodicTasks } from "./periodic-tasks.ts";
import { pluginTasks } from "./plugin-seams.ts";
import { AbandonedRuns } from "./recovery.ts";
import type { ServerThreads } from "./server-threads.ts";
import { type PeriodicTask, type RunningTasks, startTasks } from "./task-runner.ts";
import { cronTicks } from "./ticks.ts";
import { warnOfUnreadyRuns } from "./unready-runs.ts";

/** A task that no host can run now is tried again after this time. */
const laterMs = 1_000;
/** Max time of a task on another host; after it the outcome is unknown, and the task is repeated. */
const taskMsMax = 600_000;

/** The work of a process that no request asks for: its lease, the recovery of lost runs, periodic tasks and watched manifests. */
export class BackgroundWork {
  readonly #boot: Boot;
  readonly #threads: ServerThreads;
  readonly #abandoned: AbandonedRuns;
  readonly #lease: HostLease;
  readonly #membership: Membership | null;
  #tasks: RunningTasks | null = null;
  /** Names of the tasks that one host of a cluster starts. */
  readonly #shared = new Set<string>();
  #unwatch = (): void => {};
  /** The announcement of the end. The store closes after it. */
  #announced: Promise<void> = Promise.resolve();

  constructor(boot: Boot, threads: ServerThreads) {
    const { settings, env, log, options } = boot;
    const { bus, context } = threads.main;
    this.#boot = boot;
    this.#threads = threads;
    this.#abandoned = new AbandonedRuns(bus, context.store, env, log);
    const cluster = clusterConfigOf(settings);
    const startedAt = context.startedAt;
    const holdsActors = holds(settings, "api") || holds(settings, "worker");
    const nodes = holdsActors ? threads.actorNumbers : [];
    const card = hostCard(settings, { nodes, version: options.version, startedAt, places: boot.places });
    const host = threads.bootId;
    const { ports } = threads;
    this.#membership =
      cluster === null || ports === null
        ? null
        : new Membership({
            ...{ config: cluster, env, log, store: context.store.system, host, card, ports, metrics: context.metrics },
            // Durable runs of lost hosts may be this one's now.
            onView: () => holds(settings, "worker") && bus.tell(durableAddress(host), "look", { all: true }),
            onUnfit: (error) => threads.fail(error),
          });
    const membership = this.#membership;
    this.#lease = new HostLease({
      env,
      store: context.store.system,
      host: threads.bootId,
      mode: cluster === null ? "alone" : "cluster",
      card,
      // The lock of the data directory or of the database.
      locked: cluster === null,
      patienceMs: leaseMs,
      renewed: storeConfigOf(settings).engine === "postgres",
      log,
      onGone: () => this.#abandoned.close({ hostsBut: threads.bootId }),
      onLost: (error) => threads.fail(error),
      ...(membership !== null && { onCluster: (row) => membership.onCluster(row) }),
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
    await unlessEnded(options.stop, () => Promise.race([this.#join(), this.#threads.fatal]));
    return true;
  }

  /**
   * Starts the periodic tasks. Without its tables each task, including the lease, would fail and log repeatedly, so all tasks wait
   * for the migrations unless `isMigrated`.
   */
  startTasks(isMigrated: boolean): void {
    const { settings, env, log, plugins } = this.#boot;
    const { bus, context } = this.#threads.main;
    const {
      store,
      files,
      artifacts,
      documentFiles,
      redis,
      mask,
      textVectors,
      outgoing,
      secrets,
      metrics,
      skillImports,
    } = context;
    const services = { env, settings, store, bus, log, mask };
    const more = {
      ...{ outgoing, secrets, textVectors },
      count: metrics.countOwn.bind(metrics),
      observe: metrics.observeOwn.bind(metrics),
    };
    const own = {
      lease: this.#lease,
      textVectors,
      files,
      artifacts,
      documentFiles,
      redis,
      skillImports,
      metrics,
      host: this.#threads.bootId,
      startedAt: context.startedAt,
    };
    const tasks = [
      ...periodicTasks({ ...services, ...own, flush: (what) => this.#threads.flush(what) }),
      ...pluginTasks(plugins, { ...services, ...more }),
    ];
    const membership = this.#membership;
    const placed = membership === null ? tasks : tasks.map((task) => this.#placed(task, membership));
    this.#tasks = startTasks(placed, env, log, settings, isMigrated ? null : () => this.#isBehind(), cronTicks);
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

  /** Runs a periodic task now, on the host that starts it. */
  async runTask(name: string): Promise<TaskAnswer> {
    const scheduler = this.#membership?.scheduler ?? null;
    const isHere = scheduler === null || scheduler === this.#threads.bootId || !this.#shared.has(name);
    const asked = { name, why: "asked", hands_on: true } as const;
    return (isHere ? await this.onTask(asked) : await this.#ask(scheduler, asked)).answer;
  }

  /** Runs a periodic task for another host or for a request. */
  async onTask({ name, why, hands_on }: Body<"host", "task">): Promise<TaskRun> {
    const { settings } = this.#boot;
    if (this.#tasks === null) return { answer: "stopped", pause_ms: laterMs };
    if (hands_on && this.#shared.has(name) && !holds(settings, "worker")) return this.#handOn(name, why);
    return this.#tasks.run(name, why);
  }

  /** Closes the runs of an actor thread that has died. */
  closeRunsOf(worker: string): void {
    void this.#abandoned.close({ worker });
  }

  /** Starts no more work. */
  stop(): void {
    this.#announced = this.#lease.announceEnd();
    this.#unwatch();
    this.#tasks?.stop();
    this.#abandoned.stop();
  }

  /** Gives up the lease. If the store does not answer, the lease expires by itself. */
  async leave(isWritten: boolean): Promise<void> {
    await this.#announced;
    if (isWritten) {
      const { settings, env } = this.#boot;
      await sealAtEnd(this.#threads.main.context.store, settings, env);
      await this.#lease.leave();
      this.#membership?.stop();
      return;
    }
    this.#membership?.stop();
    this.#boot.log.warn(
      "the store does not answer: the last audit rows may be missing, and the lease of this host expires by itself",
    );
  }

  /** True if this process publishes the gauges of what all hosts share. */
  get publishesShared(): boolean {
    return this.#membership?.isScheduler ?? true;
  }

  /** Leaves a task to the host that starts it. That host hands it to a worker if it is none. */
  #placed(task: PeriodicTask, membership: Membership): PeriodicTask {
    const { of, name } = task;
    // Without a scheduler each host wakes runs whose wait is over.
    if (name === "due_waits")
      return { ...task, isElsewhere: () => membership.scheduler !== null && !membership.isScheduler };
    // Each host looks for its own durable runs.
    if (of !== "scheduler" || name === "fiber_scheduler") return task;
    this.#shared.add(name);
    const isElsewhere = (): boolean => !membership.isScheduler;
    const { settings } = this.#boot;
    if (holds(settings, "worker") || !holds(settings, "scheduler")) return { ...task, isElsewhere };
    const run = async (why: WhyTask): Promise<number> => (await this.#handOn(name, why)).pause_ms;
    return { ...task, of: "process", isElsewhere, run };
  }

  /** Makes a host with the duty `worker` run a task. Without one the task waits. */
  async #handOn(name: string, why: WhyTask): Promise<TaskRun> {
    const worker = this.#membership?.workerFor(name) ?? null;
    if (worker === null) return { answer: "not_held", pause_ms: laterMs };
    return this.#ask(worker, { name, why, hands_on: false });
  }

  #ask(host: string, task: Body<"host", "task">): Promise<TaskRun> {
    return this.#threads.main.bus.ask(hostAddress(host), "task", task, { deadlineMs: taskMsMax });
  }

  /** Takes the lease. Other hosts learn of this one by it, and can reach it then. */
  async #join(): Promise<void> {
    await this.#membership?.start();
    await this.#lease.keep();
  }

  /** True while the database lacks migrations, or a restore is not finished. */
  async #isBehind(): Promise<boolean> {
    const { log } = this.#boot;
    const isStillBehind = await this.#threads.main.context.schemaBehind().catch(() => true);
    if (isStillBehind) return true;
    log.info("the database has the migrations of this version");
    try {
      await this.#finishRestore();
    } catch (error) {
      log.warn({ err: error }, "the follow-up work of a restore failed; the next start tries again");
      return true;
    }
    if (this.#membership !== null) await this.#join().catch((error: Error) => this.#threads.fail(error));
    return false;
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
