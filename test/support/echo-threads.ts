import { once } from "node:events";
import { type MessagePort, Worker } from "node:worker_threads";
import { type Remote, transfer, wrap } from "comlink";
import nodeEndpoint from "comlink/dist/esm/node-adapter.mjs";
import { Bus } from "../../bus/bus.ts";
import { systemEnv } from "../../bus/env.ts";
import { portPair, portTransport } from "../../bus/ports.ts";
import { type NodeId, nodeId } from "../../bus/protocol/node-id.ts";
import type { EchoControl, EchoWorkerData } from "./echo-worker.ts";

interface EchoThread {
  readonly worker: Worker;
  readonly control: Remote<EchoControl>;
}

/** The name of a node on the bus. */
export function threadNode(number: number): NodeId {
  return nodeId("test", number);
}

/** Real threads with echo actors, all connected with each other and with this one, which only asks and is node 0. */
export class EchoThreads {
  readonly bus: Bus;
  /** Batches with something in them that this thread has posted and received. */
  readonly batches = { posted: 0, received: 0 };
  readonly #actorNodes: readonly number[];
  readonly #threads = new Map<number, EchoThread>();

  constructor(actorNodes: readonly number[]) {
    this.#actorNodes = actorNodes;
    this.bus = new Bus({
      env: systemEnv(),
      node: threadNode(0),
      incarnation: 0,
      actorNodes: actorNodes.map(threadNode),
      deliver() {
        throw new Error("this thread holds no actors");
      },
    });
    for (const node of actorNodes) this.start(node, 0);
  }

  control(node: number): Remote<EchoControl> {
    return this.#thread(node).control;
  }

  /** Starts a thread, or the replacement of a lost one, and connects it with all. */
  start(node: number, incarnation: number): void {
    const data: EchoWorkerData = {
      node: threadNode(node),
      incarnation,
      actorNodes: this.#actorNodes.map(threadNode),
    };
    const worker = new Worker(new URL("./echo-worker.ts", import.meta.url), {
      workerData: data,
      execArgv: ["--import", new URL("../../strip-types.js", import.meta.url).href],
    });
    const thread: EchoThread = { worker, control: wrap<EchoControl>(nodeEndpoint(worker)) };
    this.#threads.delete(node);
    const [ours, theirs] = portPair();
    this.#connect(node, ours);
    void thread.control.connect(threadNode(0), transfer(theirs, [theirs]));
    for (const [number, other] of this.#threads) {
      const [left, right] = portPair();
      void thread.control.connect(threadNode(number), transfer(left, [left]));
      void other.control.connect(threadNode(node), transfer(right, [right]));
    }
    this.#threads.set(node, thread);
  }

  /** Ends a thread without warning, and without notice to the others. */
  async kill(node: number): Promise<void> {
    const { worker } = this.#thread(node);
    const ended = once(worker, "exit");
    await worker.terminate();
    await ended;
  }

  /** Reports the loss of a thread to all others. */
  async lost(node: number): Promise<void> {
    this.bus.lost(threadNode(node));
    const others = [...this.#threads].filter(([number]) => number !== node);
    await Promise.all(others.map(([, other]) => other.control.lost(threadNode(node))));
  }

  async close(): Promise<void> {
    await Promise.all([...this.#threads.values()].map(({ worker }) => worker.terminate()));
    for (const node of this.#actorNodes) this.bus.lost(threadNode(node));
  }

  #connect(node: number, port: MessagePort): void {
    const transport = portTransport(port);
    this.bus.connect(threadNode(node), {
      ...transport,
      post: (batch) => {
        if (batch.items.length > 0) this.batches.posted++;
        transport.post(batch);
      },
      onBatch: (take) =>
        transport.onBatch((batch) => {
          if (batch.items.length > 0) this.batches.received++;
          take(batch);
        }),
    });
  }

  #thread(node: number): EchoThread {
    const thread = this.#threads.get(node);
    if (!thread) throw new Error(`no thread ${node}`);
    return thread;
  }
}
