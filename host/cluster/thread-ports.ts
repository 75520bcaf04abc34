import { MessageChannel, type MessagePort } from "node:worker_threads";
import { type NodeId, nodeId, splitNodeId } from "../../bus/protocol/node-id.ts";
import type { FromThread, RemoteNode, ToThread } from "./remote-node.ts";

type Entry = (from: NodeId, to: NodeId, entry: Uint8Array) => void;

/** The threads of a host in a cluster, as the main thread reaches them. */
export class ThreadPorts {
  readonly #host: string;
  readonly #ends = new Map<number, (message: ToThread) => void>();
  #post: Entry = () => {};
  #view: ToThread | null = null;
  #cut: ToThread = { kind: "cut", isCut: true };

  constructor(host: string) {
    this.#host = host;
  }

  /** Hands entries for other hosts to `post`. */
  onEntry(post: Entry): void {
    this.#post = post;
  }

  /** Adds the node of the main thread. */
  addMain(number: number, remote: RemoteNode): void {
    const from = nodeId(this.#host, number);
    remote.connect((to, entry) => this.#post(from, to, entry));
    this.#add(number, (message) => remote.take(message));
  }

  /** Adds a thread, or the replacement of one, and returns its end. */
  addThread(number: number): MessagePort {
    const from = nodeId(this.#host, number);
    const { port1, port2 } = new MessageChannel();
    port1.on("message", ({ to, entry }: FromThread) => this.#post(from, to, entry));
    port1.unref();
    this.#add(number, (message) => port1.postMessage(message));
    return port2;
  }

  /** Brings an entry to a node of this host. */
  take(from: NodeId, to: NodeId, entry: Uint8Array): void {
    const { host, number } = splitNodeId(to);
    if (host === this.#host) this.#ends.get(number)?.({ kind: "take", from, entry });
  }

  /** Tells every thread. */
  all(message: ToThread): void {
    if (message.kind === "view") this.#view = message;
    if (message.kind === "cut") this.#cut = message;
    for (const tell of this.#ends.values()) tell(message);
  }

  #add(number: number, tell: (message: ToThread) => void): void {
    this.#ends.set(number, tell);
    if (this.#view !== null) tell(this.#view);
    tell(this.#cut);
  }
}
