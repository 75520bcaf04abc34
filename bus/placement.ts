import { type AnyAddress, hostOf, placedWith } from "./address.ts";
import { type NodeId, nodeId, splitNodeId } from "./protocol/node-id.ts";

/** The nodes that hold actors, by the duty of their host. */
export interface ActorNodes {
  /** Nodes of hosts with the duty `api`. */
  readonly api: readonly NodeId[];
  /** Nodes of hosts with the duty `worker`. */
  readonly worker: readonly NodeId[];
  /** Nodes of all living hosts, also of those that drain: an actor that is bound to a host lives there. */
  readonly all: readonly NodeId[];
}

/** Actors that work for the duty `worker`. */
const workerKinds: readonly string[] = ["jobs", "delivery", "skilljobs"];
/** The place of an actor while no host holds actors. There is no connection to it. */
const nowhere = nodeId("none", 0);

/**
 * Assigns actors to nodes by rendezvous hashing (Thaler and Ravishankar, 1998) over the actor nodes of all hosts with
 * the duty that the actor needs. Every node computes the same result without communication. When a node or a host is
 * added or removed, only the keys of its nodes move. Actors of a host live on a node of that host.
 */
export class Placement {
  /** All nodes that hold actors. */
  readonly nodes: readonly NodeId[];
  /** True if the nodes belong to several hosts. */
  readonly spansHosts: boolean;
  readonly #api: Ring;
  readonly #worker: Ring;
  /** True if a durable run works on the node of its thread, because every host with the duty `api` is a worker too. */
  readonly #worksAtHome: boolean;
  readonly #workerHosts: ReadonlySet<string>;
  /** The nodes of one host, by host name. */
  readonly #ofHosts = new Map<string, Ring>();

  /** A list has nodes with all duties. */
  constructor(nodes: readonly NodeId[] | ActorNodes) {
    const { api, worker, all } = "all" in nodes ? nodes : { api: nodes, worker: nodes, all: nodes };
    this.nodes = all;
    this.spansHosts = new Set(all.map(hostOfNode)).size > 1;
    this.#api = new Ring(firstUsed(api, worker, all));
    this.#worker = new Ring(firstUsed(worker, api, all));
    this.#workerHosts = new Set(worker.map(hostOfNode));
    this.#worksAtHome = worker.length > 0 && api.every((node) => this.#workerHosts.has(hostOfNode(node)));
  }

  /** Returns the node of an actor. */
  nodeOf(actor: AnyAddress): NodeId {
    const { nodes } = this;
    if (nodes.length === 1) return nodes[0] as NodeId;
    const host = hostOf(actor);
    if (host !== null) return this.#over(host).nodeOf(actor.kind, actor.key);
    const { kind, key } = placedWith(actor);
    return (workerKinds.includes(kind) ? this.#worker : this.#api).nodeOf(kind, key);
  }

  /**
   * Returns the node on which a durable run works, with its thread; null if no host is a worker. It is the home of the
   * thread if each host with the duty `api` is a worker too, and otherwise a worker that the id of the run decides.
   */
  workNodeOf(run: AnyAddress): NodeId | null {
    if (this.#worksAtHome) return this.nodeOf(run);
    if (this.#workerHosts.size === 0) return null;
    const node = this.#worker.nodeOf(run.kind, run.key);
    const home = this.nodeOf(run);
    return hostOfNode(home) === hostOfNode(node) ? home : node;
  }

  /** The nodes of a host; all, if it has none. */
  #over(host: string): Ring {
    const known = this.#ofHosts.get(host);
    if (known !== undefined) return known;
    const own = this.nodes.filter((node) => hostOfNode(node) === host);
    const made = new Ring(own.length > 0 ? own : this.nodes);
    this.#ofHosts.set(host, made);
    return made;
  }
}

/** Nodes among which the hash of a key decides. */
class Ring {
  readonly #nodes: readonly NodeId[];
  /** The contribution of each node to the hash of a key. */
  readonly #salts: readonly number[];

  constructor(nodes: readonly NodeId[]) {
    this.#nodes = nodes;
    this.#salts = nodes.map(saltOf);
  }

  nodeOf(kind: string, key: string): NodeId {
    const nodes = this.#nodes;
    if (nodes.length <= 1) return nodes[0] ?? nowhere;
    const keyHash = hash(kind, hash(key, 0x811c9dc5));
    let best = nowhere;
    let bestWeight = -1;
    for (let i = 0; i < nodes.length; i++) {
      const weight = mix(keyHash ^ (this.#salts[i] as number));
      if (weight > bestWeight) {
        bestWeight = weight;
        best = nodes[i] as NodeId;
      }
    }
    return best;
  }
}

function firstUsed(...lists: readonly (readonly NodeId[])[]): readonly NodeId[] {
  return lists.find((nodes) => nodes.length > 0) ?? [];
}

function hostOfNode(node: NodeId): string {
  return splitNodeId(node).host;
}

function saltOf(node: NodeId): number {
  const { host, number } = splitNodeId(node);
  return hash(host, 0) ^ Math.imul(number + 1, 0x9e3779b1);
}

/** FNV-1a over UTF-16 code units. */
function hash(text: string, seed: number): number {
  let value = seed;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return value;
}

/** The finalizer of MurmurHash3, unsigned. */
function mix(input: number): number {
  let value = input;
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 0;
}
