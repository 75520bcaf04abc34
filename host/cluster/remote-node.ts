import type { MessagePort } from "node:worker_threads";
import type { Bus, BusOptions } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { ActorNodes } from "../../bus/placement.ts";
import { type NodeId, splitNodeId } from "../../bus/protocol/node-id.ts";
import { RemoteLinks } from "../../bus/remote-links.ts";

/** A message of the main thread to a thread of a host in a cluster. */
export type ToThread =
  /** An entry of a node of another host. */
  | { readonly kind: "take"; readonly from: NodeId; readonly entry: Uint8Array }
  /** An entry to this node may not have arrived. */
  | { readonly kind: "undelivered"; readonly node: NodeId }
  /** The hosts that are there, and the nodes over which actors are placed. */
  | { readonly kind: "view"; readonly hosts: readonly string[]; readonly actorNodes: ActorNodes }
  /** Redis stopped or works again. */
  | { readonly kind: "cut"; readonly isCut: boolean };

/** A message of a thread to the main thread: an entry for a node of another host. */
export interface FromThread {
  readonly to: NodeId;
  readonly entry: Uint8Array;
}

/** A lost Redis is tried again in two seconds at most. */
const retryAfterSeconds = 2;

/** A thread's connections to other hosts. The main thread carries their entries. */
export class RemoteNode {
  readonly #links: RemoteLinks;
  readonly #host: string;
  #bus: Bus | null = null;
  #send: (to: NodeId, entry: Uint8Array) => void = () => {};

  constructor(env: Env, host: string, protocol: number) {
    this.#host = host;
    this.#links = new RemoteLinks({
      ...{ env, host, protocol },
      send: (to, entry) => this.#send(to, entry),
      accept: (from, transport) => this.#bus?.connect(from, transport),
      lost: (node) => this.#bus?.lost(node),
    });
    // Until the host is a member, it reaches no other.
    this.#links.setCut(true);
  }

  /** The options of the bus that uses the connections. */
  get busOptions(): Pick<BusOptions, "dial" | "refusal"> {
    return {
      dial: (node) => this.#links.dial(node),
      refusal: (node) => {
        const isElsewhere = splitNodeId(node).host !== this.#host;
        return this.#links.isCut && isElsewhere
          ? new SvcError("dependency_unavailable", { retryAfterSeconds })
          : new SvcError("actor_lost");
      },
    };
  }

  /** Number of entries that were not accepted since the last call. */
  takeRefusedCount(): number {
    const { refusedCount } = this.#links;
    this.#links.refusedCount = 0;
    return refusedCount;
  }

  attach(bus: Bus): void {
    this.#bus = bus;
  }

  /** Hands entries to the main thread. */
  connect(send: (to: NodeId, entry: Uint8Array) => void): void {
    this.#send = send;
  }

  /** Hands entries to the main thread over a port, and takes its messages from there. */
  connectPort(port: MessagePort): void {
    this.connect((to, entry) => port.postMessage({ to, entry } satisfies FromThread));
    port.on("message", (message: ToThread) => this.take(message));
  }

  take(message: ToThread): void {
    if (message.kind === "take") this.#links.take(message.from, message.entry);
    else if (message.kind === "undelivered") this.#links.undelivered(message.node);
    else if (message.kind === "cut") this.#links.setCut(message.isCut);
    else {
      // Report the losses first: listeners find a lost actor by its old place.
      this.#links.setHosts(message.hosts);
      this.#bus?.placeOver(message.actorNodes);
    }
  }
}
