import { availableParallelism } from "node:os";
import { MessageChannel, Worker } from "node:worker_threads";
import { expose, type Remote, transfer, wrap } from "comlink";
import nodeEndpoint from "comlink/dist/esm/node-adapter.mjs";
import type { Delivery } from "../bus/bus.ts";
import { SvcError } from "../bus/errors.ts";
import type { TaskAnswer, TaskRun } from "../bus/protocol/host.ts";
import type { Body } from "../bus/protocol/kinds.ts";
import { type NodeId, nodeId, splitNodeId } from "../bus/protocol/node-id.ts";
import type { MetricSnapshot } from "../governance/metrics.ts";
import { clusterConfigOf } from "../governance/settings/cluster-settings.ts";
import { holds } from "../governance/settings/duties.ts";
import { atPlace, databasePlace } from "../governance/settings/places.ts";
import { storeConfigOf } from "../governance/settings/store-config.ts";
import { tracingOf } from "../governance/settings/tracing-settings.ts";
import { TraceExport } from "../governance/tracing/trace-export.ts";
import type { SpanBatch } from "../governance/tracing/tracer.ts";
import { type Actors, type Flushed, startActors } from "./actor-node.ts";
import { BacklogFigures } from "./backlog-figures.ts";
import type { Boot } from "./boot.ts";
import { unlessEnded } from "./boot-end.ts";
import { ThreadPorts } from "./cluster/thread-ports.ts";
import { createHttpNode, type HttpNode, type HttpNodeConfig, type MainControl } from "./http-node.ts";
import type { HttpControl } from "./http-worker.ts";
import { isWrittenInTime } from "./last-writes.ts";
import { probePort } from "./port.ts";
import { SiblingMetrics } from "./sibling-metrics.ts";
import { ActorSystem } from "./system.ts";
import { type ThreadCounts, threadCounts } from "./worker-counts.ts";

/** Calls of the threads into the work of the process. */
export interface ThreadCalls {
  /** An actor thread has died and was replaced. */
  onReplaced(worker: string): void;
  /** Runs a periodic task on request. */
  runTask(name: string): Promise<TaskAnswer>;
  /** Runs a periodic task for another host. */
  onTask(task: Body<"host", "task">): Promise<TaskRun>;
  /** True if this process publishes the gauges of what all hosts share. */
  publishesShared(): boolean;
}

/** The threads of one server: the store's, those with actors, and those that serve HTTP. The main thread serves HTTP too. */
export class ServerThreads {
  readonly bootId: string;
  readonly counts: ThreadCounts;
  readonly system: ActorSystem;
  /** The way of the threads to other hosts; null outside a cluster. */
  readonly ports: ThreadPorts | null;
  /** Rejects on the first failure that the server cannot survive. */
  readonly fatal: Promise<never>;
  readonly #boot: Boot;
  readonly #calls: ThreadCalls;
  readonly #fail: (error: Error) => void;
  readonly #threadNodes: readonly number[];
  readonly #actorNodes: readonly NodeId[];
  readonly #workers: HttpWorker[] = [];
  #main: HttpNode | null = null;
  /** Null for a server that shares its port with no other. */
  #siblings: SiblingMetrics | null = null;
  #figures: BacklogFigures | null = null;
  /** Null if traces are off. */
  #traces: TraceExport | null = null;
  /** The actors of the main thread; null if they have threads of their own. */
  #actors: Actors | null = null;

  constructor(boot: Boot, calls: ThreadCalls) {
    const { settings, options, env, log } = boot;
    this.#boot = boot;
    this.#calls = calls;
    // Processes that share the port share the processors too.
    const cores = options.sharesPort ? Math.ceil(availableParallelism() / settings.workers) : availableParallelism();
    this.counts = threadCounts(settings, options.cores ?? cores);
    this.bootId = env.id().slice(0, 16);
    this.#threadNodes = Array.from({ length: this.counts.actors }, (_, index) => 1 + this.#httpWorkers + index);
    this.#actorNodes = (this.counts.actors > 0 ? this.#threadNodes : [0]).map((node) => nodeId(this.bootId, node));
    const fatal = Promise.withResolvers<never>();
    fatal.promise.catch(() => {});
    this.fatal = fatal.promise;
    this.#fail = fatal.reject;
    this.ports = clusterConfigOf(settings) === null ? null : new ThreadPorts(this.bootId);
    this.system = new ActorSystem({
      env,
      settings,
      bootId: this.bootId,
      version: options.version,
      log,
      threads: this.#threadNodes,
      actorNodes: this.#actorNodes,
      ports: this.ports,
      onFatal: this.#fail,
      onReplaced: calls.onReplaced,
    });
  }

  /** Starts all threads; none listens yet. Rejects if the store is not ready, and with EndedInBoot at a stop. */
  async start(): Promise<void> {
    const { settings, options } = this.#boot;
    const { system } = this;
    try {
      await unlessEnded(options.stop, () => atPlace(databasePlace(settings), () => system.store.ready));
      await unlessEnded(options.stop, () => Promise.race([system.start(), this.fatal]));
    } catch (error) {
      await system.abandon();
      throw error;
    }
    const { parent } = options;
    if (parent) this.#siblings = new SiblingMetrics(parent, this.#boot.env, () => this.#metrics());
    const control: MainControl = { allMetrics: () => this.#allMetrics(), runTask: this.#calls.runTask };
    this.#startMain(control);
    if (tracingOf(settings) !== null)
      this.#traces = new TraceExport({
        ...{ settings, version: options.version, instance: this.bootId, env: this.#boot.env, log: this.#boot.log },
        metrics: this.main.context.metrics,
        gather: () => this.#spans(),
      });
    for (let node = 1; node <= this.#httpWorkers; node++)
      this.#workers.push(startHttpWorker(this.#nodeConfig(node), system, control, this.ports, this.#fail));
  }

  /** The main thread's node. */
  get main(): HttpNode {
    if (this.#main === null) throw new Error("the threads have not started");
    return this.#main;
  }

  /** Numbers of the nodes that hold actors. */
  get actorNumbers(): readonly number[] {
    return this.#actorNodes.map((node) => splitNodeId(node).number);
  }

  /** A node that holds actors. */
  get actorNode(): NodeId {
    return this.#actorNodes[0] as NodeId;
  }

  /** Reports a failure that the server cannot survive. */
  fail(error: Error): void {
    this.#fail(error);
  }

  /**
   * Listens and returns the port; null for none. A single HTTP thread listens alone; several share the port, and the kernel
   * distributes connections. SVC_METRICS_PORT is one more, or the only one without the duty `api`.
   */
  async listen(): Promise<number | null> {
    const { settings, options } = this.#boot;
    const { host, port, metricsPort } = settings;
    const metrics = metricsPort === 0 ? null : await this.main.listenForOperators(metricsPort);
    if (!holds(settings, "api")) return metrics;
    if (this.#workers.length === 0) return this.main.listen(port);
    // With port 0, the kernel's choice for one thread could not be shared by the others, so choose a free port first.
    const shared = options.sharesPort ? port : await probePort(host, port);
    for (const { control } of this.#workers) await control.listen(shared);
    return shared;
  }

  /** Writes buffered rows of all actors. False if the store does not take them. */
  async flush(what: Flushed): Promise<boolean> {
    const written = await Promise.all([this.system.flush(what), this.#actors?.flush(what)]);
    return written.every((all) => all !== false);
  }

  /** Makes /ready report draining, and continues to serve. */
  announceEnd(): void {
    this.main.announceEnd();
    for (const { control } of this.#workers) void control.announceEnd();
  }

  /** Accepts no more connections, and refuses new turns on open ones. */
  async stopAccepting(): Promise<void> {
    this.main.stopAccepting();
    for (const { control } of this.#workers) await control.stopAccepting();
  }

  /**
   * Ends the live runs, answers the open requests and closes all threads. Calls `leave` before the connections close, with false
   * if the last rows may be missing.
   */
  async stop(leave: (isWritten: boolean) => Promise<void>): Promise<void> {
    const { env, settings } = this.#boot;
    const graceMs = settings.gracefulShutdownSeconds * 1000;
    const graceUntil = env.monotonic() + graceMs;
    await this.system.stop(graceMs, async (isWritten) => {
      const areOwnWritten = (await this.#actors?.drain(graceMs)) ?? true;
      const leftMs = graceUntil - env.monotonic();
      const answering = this.#workers.map(({ control }) => control.answerAll(leftMs));
      await Promise.all([this.main.answerAll(leftMs), ...answering]);
      // Non-turn requests have audit rows too, so flush again. If the store failed before, do not wait again.
      const audit = () => isWrittenInTime(env, [this.#actors?.flush("audit"), this.system.flush("audit")]);
      const areAllWritten = isWritten && areOwnWritten && (await audit());
      await this.#traces?.close();
      this.#actors?.close();
      await leave(areAllWritten);
      this.main.close();
      await Promise.all(this.#workers.map(({ control }) => control.close()));
    });
    for (const { worker } of this.#workers) await worker.terminate();
  }

  /** Number of HTTP threads in addition to the main thread; with only one HTTP thread, it is the main thread. */
  get #httpWorkers(): number {
    return this.counts.http > 1 ? this.counts.http : 0;
  }

  #startMain(control: MainControl): void {
    const { settings, plugins, options, env } = this.#boot;
    const { system } = this;
    const main = createHttpNode(this.#nodeConfig(0), env, system.store.attach(), plugins, control, (delivery) =>
      delivery.kind === "host" ? this.#onHostMessage(delivery) : this.#actors?.deliver(delivery),
    );
    this.#main = main;
    if (main.remote !== null) this.ports?.addMain(0, main.remote);
    if (this.counts.actors === 0) {
      const { bootId } = this;
      const own = { node: 0, actorNodes: this.#actorNodes, bootId, incarnation: 0, version: options.version };
      const config = { ...own, settings, store: storeConfigOf(settings) };
      this.#actors = startActors(config, env, main.context.store, main.bus, plugins);
    }
    this.#figures = new BacklogFigures(main.context.metrics);
    system.join({ node: 0, connect: main.connect, lost: main.lost });
  }

  #onHostMessage(delivery: Delivery): void {
    const { bus } = this.main;
    this.#calls.onTask(delivery.body as Body<"host", "task">).then(
      (run) => bus.reply(delivery, run),
      (error: unknown) => bus.refuse(delivery, SvcError.from(error)),
    );
  }

  #nodeConfig(node: number): HttpNodeConfig {
    const { settings, options, env } = this.#boot;
    return {
      node,
      actorNodes: this.#actorNodes,
      bootId: this.bootId,
      httpThreads: this.counts.http,
      sharesPort: this.counts.http > 1 || options.sharesPort === true,
      settings,
      version: options.version,
      startedAt: env.now(),
    };
  }

  async #spans(): Promise<readonly SpanBatch[]> {
    const ofWorkers = Promise.all(this.#workers.map(({ control }) => control.spans()));
    return [
      ...(await this.system.spans()),
      ...(this.#actors ? [this.#actors.spans()] : []),
      this.main.spans(),
      ...(await ofWorkers),
    ];
  }

  async #allMetrics(): Promise<readonly MetricSnapshot[]> {
    const [own, others] = await Promise.all([this.#metrics(), this.#siblings?.others() ?? []]);
    return [...own, ...others];
  }

  async #metrics(): Promise<readonly MetricSnapshot[]> {
    await this.#figures?.read(this.#calls.publishesShared() ? this.main.context.store.system : null);
    return [
      ...(await this.system.metrics()),
      ...(this.#actors ? [this.#actors.metrics()] : []),
      this.main.metrics(),
      ...(await Promise.all(this.#workers.map(({ control }) => control.metrics()))),
    ];
  }
}

interface HttpWorker {
  readonly worker: Worker;
  readonly control: Remote<HttpControl>;
}

function startHttpWorker(
  config: HttpNodeConfig,
  system: ActorSystem,
  mainControl: MainControl,
  ports: ThreadPorts | null,
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
  const port = ports?.addThread(config.node);
  if (port !== undefined) void control.joinCluster(transfer(port, [port]));
  system.join({
    node: config.node,
    connect: (node, port) => void control.connect(node, transfer(port, [port])),
    lost: (node) => void control.lost(node),
  });
  return { worker, control };
}
