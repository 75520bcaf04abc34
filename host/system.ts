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
import { type StoreThread, startStoreThread } from "../storage/start.ts";
import type { NodeConfig } from "./actor-deps.ts";
import type { Flushed, NodeControl } from "./actor-node.ts";

// The threads of this process and who is connected to whom. The main thread starts the store thread and the actor threads,
// lays a port between every two that talk, and replaces an actor thread that dies: whoever asked it something is told
// actor_lost, and what it was running is closed as interrupted.

/** A node that speaks to actors and holds none: an http thread. */
export interface Peer {
  readonly node: number;
  connect(node: NodeId, port: MessagePort): void;
  lost(node: NodeId): void;
}

/** What the threads are started with, and who is told when they fail. */
export interface SystemOptions {
  readonly env: Env;
  readonly settings: Settings;
  readonly bootId: string;
  /** Of svc. */
  readonly version: string;
  readonly log: Logger;
  /** The numbers of the threads that hold actors. */
  readonly threads: readonly number[];
  /** The nodes that hold actors, in the same order everywhere. */
  readonly actorNodes: readonly NodeId[];
  /** The store is gone, or an actor thread dies as soon as it starts: nothing works any more. */
  readonly onFatal: (error: Error) => void;
  /** An actor thread was replaced; `owner` is how the lost one marked what it was running. */
  readonly onReplaced: (owner: string) => void;
}

interface ActorThread {
  readonly node: number;
  incarnation: number;
  worker: Worker;
  control: Remote<NodeControl>;
  /** Called when the thread has ended; null when they were. What was asked of it is never answered then. */
  whenGone: Set<() => void> | null;
  /** Whether it has started. */
  answered: boolean;
  /** What it has died of, where it was thrown. */
  failure: Error | null;
  /** When it and its predecessors have died, on the monotonic clock. */
  deaths: readonly number[];
}

/** A thread that dies this often within the window is not started again, nor is one that has never answered. */
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

  /** Resolves when the store is open and every actor thread answers. */
  async start(): Promise<void> {
    await this.store.ready;
    for (const node of this.#options.threads) this.#threads.push(this.#spawn(node, 0, []));
    for (const [index, thread] of this.#threads.entries())
      for (const other of this.#threads.slice(index + 1)) this.#connectThreads(thread, other);
    await Promise.all(this.#threads.map((thread) => thread.control.metrics()));
  }

  /** Connects an http thread with every actor thread, now and after a replacement. */
  join(peer: Peer): void {
    this.#peers.push(peer);
    for (const thread of this.#threads) this.#connectPeer(peer, thread);
  }

  /** What all actor threads have counted. */
  async metrics(): Promise<MetricSnapshot[]> {
    const counted = await Promise.all(this.#threads.map((thread) => answerOf(thread, thread.control.metrics())));
    return counted.filter((snapshot) => snapshot !== undefined);
  }

  /** Has every actor thread write what waits in its memory. False when the store does not take all of it. */
  async flush(what: Flushed): Promise<boolean> {
    const written = await Promise.all(this.#threads.map((thread) => answerOf(thread, thread.control.flush(what))));
    // Of one that has died meanwhile nothing waits any more.
    return !written.includes(false);
  }

  /**
   * Lets live runs end, interrupts those that do not within `graceMs`, and ends the threads; the store last. `closePeers` is called
   * when no run is left and what the runs have said is on its way, with whether the store has taken what waited in memory.
   */
  async stop(graceMs: number, closePeers: (isWritten: boolean) => Promise<void>): Promise<void> {
    this.#stopping = true;
    const written = await Promise.all(this.#threads.map((thread) => answerOf(thread, thread.control.drain(graceMs))));
    // Of one that has died meanwhile nothing waits any more.
    await closePeers(!written.includes(false));
    await Promise.all(this.#threads.map((thread) => thread.worker.terminate()));
    await this.store.close();
  }

  /** Ends the threads of a system that has taken nothing from anybody yet, whether or not they have started. */
  async abandon(): Promise<void> {
    this.#stopping = true;
    await Promise.all(this.#threads.map((thread) => thread.worker.terminate()));
    await this.store.abandon();
  }

  /** Ends an actor thread without warning, as a crash would. */
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
    // A replacement may be hit before it has answered, by what has ended the one before it.
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
 * What a thread answers; undefined when it ends before. A race against a promise of its end would keep every answer for as long as
 * the thread lives.
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
