import type { MessagePort } from "node:worker_threads";
import { Worker } from "node:worker_threads";
import { type Remote, transfer, wrap } from "comlink";
import nodeEndpoint from "comlink/dist/esm/node-adapter.mjs";
import type { Logger } from "pino";
import type { Env } from "../bus/env.ts";
import { portPair } from "../bus/ports.ts";
import { type NodeId, nodeId } from "../bus/protocol/node-id.ts";
import type { MetricSnapshot } from "../governance/metrics.ts";
import type { Settings } from "../governance/settings/settings.ts";
import { storeConfigOf } from "../governance/settings/store-config.ts";
import type { SpanBatch } from "../governance/tracing/tracer.ts";
import { type StoreThread, startStoreThread } from "../storage/start.ts";
import type { NodeConfig } from "./actor-deps.ts";
import type { Flushed, NodeControl } from "./actor-node.ts";
import type { ThreadPorts } from "./cluster/thread-ports.ts";

// The threads of this process and their connections. The main thread starts the store thread and the actor threads, and connects
// every two that exchange messages. It replaces an actor thread that dies: open asks fail with actor_lost, and its runs are
// closed as interrupted.

/** A node that sends to actors and holds none: an HTTP thread. */
export interface Peer {
  readonly node: number;
  connect(node: NodeId, port: MessagePort): void;
  lost(node: NodeId): void;
}

/** The configuration of the threads, and callbacks for their failures. */
export interface SystemOptions {
  readonly env: Env;
  readonly settings: Settings;
  readonly bootId: string;
  /** Version of svc. */
  readonly version: string;
  readonly log: Logger;
  /** Node numbers of the actor threads. */
  readonly threads: readonly number[];
  /** The nodes that hold actors, in the same order on every node. */
  readonly actorNodes: readonly NodeId[];
  /** The way of the threads to other hosts; null outside a cluster. */
  readonly ports: ThreadPorts | null;
  /** Called if the store fails, or an actor thread dies repeatedly: the process cannot continue. */
  readonly onFatal: (error: Error) => void;
  /** An actor thread was replaced; `owner` marks the runs of the lost one. */
  readonly onReplaced: (owner: string) => void;
}

interface ActorThread {
  readonly node: number;
  incarnation: number;
  worker: Worker;
  control: Remote<NodeControl>;
  /** Called when the thread ends, because its open calls never resolve then; null after that. */
  whenGone: Set<() => void> | null;
  /** True if the thread has responded once. */
  answered: boolean;
  /** The uncaught error that ended the thread. */
  failure: Error | null;
  /** Times at which the thread and its predecessors died, on the monotonic clock. */
  deaths: readonly number[];
}

/** A thread that dies this often within the window is not restarted, and neither is one that never responded. */
const deathsMax = 5;
const deathsWindowMs = 30_000;

/** The store thread and the actor threads of this process. */
export class ActorSystem {
  readonly store: StoreThread;
  readonly #options: SystemOptions;
  readonly #threads: ActorThread[] = [];
  readonly #peers: Peer[] = [];
  #stopping = false;

  constructor(options: SystemOptions) {
    this.#options = options;
    this.store = startStoreThread(storeConfigOf(options.settings));
    this.store.onExit(options.onFatal);
    this.store.onHealth((reason) => {
      if (reason === null) options.log.info("the store accepts writes again");
      else options.log.error({ reason }, "the store does not accept writes");
    });
    this.store.onDefect((cause) => options.log.error({ cause }, "the store reported an internal defect"));
  }

  /** Resolves when the store is open and every actor thread responds. */
  async start(): Promise<void> {
    await this.store.ready;
    for (const node of this.#options.threads) this.#threads.push(this.#spawn(node, 0, []));
    for (const [index, thread] of this.#threads.entries())
      for (const other of this.#threads.slice(index + 1)) this.#connectThreads(thread, other);
    await Promise.all(this.#threads.map((thread) => thread.control.metrics()));
  }

  /** Connects an HTTP thread to every actor thread, now and after each replacement. */
  join(peer: Peer): void {
    this.#peers.push(peer);
    for (const thread of this.#threads) this.#connectPeer(peer, thread);
  }

  /** Returns the counts of all actor threads. */
  async metrics(): Promise<MetricSnapshot[]> {
    const counted = await Promise.all(this.#threads.map((thread) => answerOf(thread, thread.control.metrics())));
    return counted.filter((snapshot) => snapshot !== undefined);
  }

  /** Returns the spans of all actor threads. */
  async spans(): Promise<SpanBatch[]> {
    const made = await Promise.all(this.#threads.map((thread) => answerOf(thread, thread.control.spans())));
    return made.filter((batch) => batch !== undefined);
  }

  /** Makes every actor thread write its buffered rows. Returns false if the store does not accept all of them. */
  async flush(what: Flushed): Promise<boolean> {
    const written = await Promise.all(this.#threads.map((thread) => answerOf(thread, thread.control.flush(what))));
    // A thread that died has no buffered rows (undefined).
    return !written.includes(false);
  }

  /**
   * Drains live runs, interrupts those that exceed `graceMs`, and ends the threads; the store last. Calls `closePeers` when no
   * run is left and all frames are sent; its argument is true if all buffered rows were written.
   */
  async stop(graceMs: number, closePeers: (isWritten: boolean) => Promise<void>): Promise<void> {
    this.#stopping = true;
    const written = await Promise.all(this.#threads.map((thread) => answerOf(thread, thread.control.drain(graceMs))));
    // A thread that died has no buffered rows (undefined).
    await closePeers(!written.includes(false));
    await Promise.all(this.#threads.map((thread) => thread.worker.terminate()));
    await this.store.close();
  }

  /** Ends the threads of a system that has not accepted work yet, started or not. */
  async abandon(): Promise<void> {
    this.#stopping = true;
    await Promise.all(this.#threads.map((thread) => thread.worker.terminate()));
    await this.store.abandon();
  }

  /** Ends an actor thread abruptly, like a crash. */
  async kill(node: number): Promise<void> {
    await this.#threads.find((thread) => thread.node === node)?.worker.terminate();
  }

  #spawn(node: number, incarnation: number, deaths: readonly number[]): ActorThread {
    const { settings, bootId, actorNodes, version } = this.#options;
    const store = storeConfigOf(settings);
    const config: NodeConfig = { node, actorNodes, settings, store, bootId, incarnation, version };
    const storePort = this.store.attach();
    const worker = new Worker(new URL("./actor-worker.ts", import.meta.url), {
      name: `actors-${node}`,
      workerData: { config, storePort },
      transferList: [storePort],
      execArgv: ["--import", new URL("../strip-types.js", import.meta.url).href],
    });
    const control = wrap<NodeControl>(nodeEndpoint(worker));
    const port = this.#options.ports?.addThread(node);
    if (port !== undefined) void control.joinCluster(transfer(port, [port]));
    const thread: ActorThread = {
      node,
      incarnation,
      worker,
      control,
      whenGone: new Set(),
      answered: false,
      failure: null,
      deaths,
    };
    void control.metrics().then(() => {
      thread.answered = true;
    });
    worker.on("error", (error) => {
      thread.failure = error as Error;
      this.#options.log.error({ err: error, node }, "actor thread failed");
    });
    worker.on("exit", () => {
      for (const gone of thread.whenGone ?? []) gone();
      thread.whenGone = null;
      this.#exited(thread);
    });
    return thread;
  }

  #exited(thread: ActorThread): void {
    if (this.#stopping) return;
    const { node, incarnation } = thread;
    this.#options.log.error({ node, incarnation }, "actor thread ended; it is started again");
    for (const peer of this.#peers) peer.lost(this.#idOf(thread));
    const others = this.#threads.filter((other) => other.node !== node);
    for (const other of others) void other.control.lost(this.#idOf(thread));
    const now = this.#options.env.monotonic();
    const deaths = [...thread.deaths.filter((at) => at > now - deathsWindowMs), now];
    // A replacement may die before its first response, from the cause that ended its predecessor; so only the first incarnation
    // is fatal here.
    if ((incarnation === 0 && !thread.answered) || deaths.length >= deathsMax) {
      const { failure: cause } = thread;
      const words = `actor thread ${node} keeps failing${cause ? `: ${cause.message}` : ""}`;
      this.#options.onFatal(new Error(words, { cause }));
      return;
    }
    const replacement = this.#spawn(node, incarnation + 1, deaths);
    this.#threads[this.#threads.indexOf(thread)] = replacement;
    for (const other of others) this.#connectThreads(replacement, other);
    for (const peer of this.#peers) this.#connectPeer(peer, replacement);
    this.#options.onReplaced(`${this.#options.bootId}:${node}:${incarnation}`);
  }

  #idOf({ node }: { node: number }): NodeId {
    return nodeId(this.#options.bootId, node);
  }

  #connectThreads(a: ActorThread, b: ActorThread): void {
    const [left, right] = portPair();
    void a.control.connect(this.#idOf(b), transfer(left, [left]));
    void b.control.connect(this.#idOf(a), transfer(right, [right]));
  }

  #connectPeer(peer: Peer, thread: ActorThread): void {
    const [left, right] = portPair();
    peer.connect(this.#idOf(thread), left);
    void thread.control.connect(this.#idOf(peer), transfer(right, [right]));
  }
}

/**
 * Returns the thread's reply; undefined if the thread ends first. Promise.race with one long-lived promise would retain every
 * reply for the thread's lifetime.
 */
async function answerOf<T>(thread: ActorThread, asked: Promise<T>): Promise<T | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<T | undefined>();
  const gone = (): void => resolve(undefined);
  if (thread.whenGone === null) gone();
  thread.whenGone?.add(gone);
  asked.then(resolve, reject);
  try {
    return await promise;
  } finally {
    thread.whenGone?.delete(gone);
  }
}
