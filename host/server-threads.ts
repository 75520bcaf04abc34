import { availableParallelism } from "node:os";
import { MessageChannel, Worker } from "node:worker_threads";
import { expose, type Remote, transfer, wrap } from "comlink";
import nodeEndpoint from "comlink/dist/esm/node-adapter.mjs";
import { type NodeId, nodeId } from "../bus/protocol/node-id.ts";
import type { MetricSnapshot } from "../governance/metrics.ts";
import { atPlace, databasePlace } from "../governance/settings/places.ts";
import { storeConfigOf } from "../governance/settings/store-config.ts";
import type { TaskAnswer } from "../http/context.ts";
import { type Actors, type Flushed, startActors } from "./actor-node.ts";
import { BacklogFigures } from "./backlog-figures.ts";
import type { Boot } from "./boot.ts";
import { unlessEnded } from "./boot-end.ts";
import { createHttpNode, type HttpNode, type HttpNodeConfig, type MainControl } from "./http-node.ts";
import type { HttpControl } from "./http-worker.ts";
import { isWrittenInTime } from "./last-writes.ts";
import { probePort } from "./port.ts";
import { ActorSystem } from "./system.ts";
import { type ThreadCounts, threadCounts } from "./worker-counts.ts";

/** Calls of the threads into the work of the process. */
export interface ThreadCalls {
  /** An actor thread has died and was replaced. */
  onReplaced(worker: string): void;
  /** Runs a periodic task on request. */
  runTask(name: string): Promise<TaskAnswer>;
}

/** The threads of one server: the store's, those with actors, and those that serve HTTP. The main thread serves HTTP too. */
export class ServerThreads {
  readonly bootId: string;
  readonly counts: ThreadCounts;
  readonly system: ActorSystem;
  /** Rejects on the first failure that the server cannot survive. */
  readonly fatal: Promise<never>;
  readonly #boot: Boot;
  readonly #calls: ThreadCalls;
  readonly #fail: (error: Error) => void;
  readonly #threadNodes: readonly number[];
  readonly #actorNodes: readonly NodeId[];
  readonly #workers: HttpWorker[] = [];
  #main: HttpNode | null = null;
  #figures: BacklogFigures | null = null;
  /** The actors of the main thread; null if they have threads of their own. */
  #actors: Actors | null = null;

  constructor(boot: Boot, calls: ThreadCalls) {
    const { settings, options, env, log } = boot;
    this.#boot = boot;
    this.#calls = calls;
    this.counts = threadCounts(settings, options.cores ?? availableParallelism());
    this.bootId = env.id().slice(0, 16);
    this.#threadNodes = Array.from({ length: this.counts.actors }, (_, index) => 1 + this.#httpWorkers + index);
    this.#actorNodes = (this.counts.actors > 0 ? this.#threadNodes : [0]).map((node) => nodeId(this.bootId, node));
    const fatal = Promise.withResolvers<never>();
    fatal.promise.catch(() => {});
    this.fatal = fatal.promise;
    this.#fail = fatal.reject;
    this.system = new ActorSystem({
      env,
      settings,
      bootId: this.bootId,
      version: options.version,
      log,
      threads: this.#threadNodes,
      actorNodes: this.#actorNodes,
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
    const control: MainControl = { allMetrics: () => this.#metrics(), runTask: this.#calls.runTask };
    this.#startMain(control);
    for (let node = 1; node <= this.#httpWorkers; node++)
      this.#workers.push(startHttpWorker(this.#nodeConfig(node), system, control, this.#fail));
  }

  /** The main thread's node. */
  get main(): HttpNode {
    if (this.#main === null) throw new Error("the threads have not started");
    return this.#main;
  }

  /** A node that holds actors. */
  get actorNode(): NodeId {
    return this.#actorNodes[0] as NodeId;
  }

  /** Reports a failure that the server cannot survive. */
  fail(error: Error): void {
    this.#fail(error);
  }

  /** Listens and returns the port. A single HTTP thread listens alone; several share the port, and the kernel distributes connections. */
  async listen(): Promise<number> {
    const { host, port } = this.#boot.settings;
    if (this.#workers.length === 0) return this.main.listen(port);
    // With port 0, the kernel's choice for one thread could not be shared by the others, so choose a free port first.
    const shared = await probePort(host, port);
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
      this.#actors?.deliver(delivery),
    );
    this.#main = main;
    if (this.counts.actors === 0) {
      const { bootId } = this;
      const own = { node: 0, actorNodes: this.#actorNodes, bootId, incarnation: 0, version: options.version };
      const config = { ...own, settings, store: storeConfigOf(settings) };
      this.#actors = startActors(config, env, main.context.store, main.bus, plugins);
    }
    this.#figures = new BacklogFigures(main.context.metrics);
    system.join({ node: 0, connect: main.connect, lost: main.lost });
  }

  #nodeConfig(node: number): HttpNodeConfig {
    const { settings, options, env } = this.#boot;
    return {
      node,
      actorNodes: this.#actorNodes,
      bootId: this.bootId,
      httpThreads: this.counts.http,
      settings,
      version: options.version,
      startedAt: env.now(),
    };
  }

  async #metrics(): Promise<readonly MetricSnapshot[]> {
    await this.#figures?.read(this.main.context.store.system);
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
