import { type AnyAddress, hostOf, placedWith } from "./address.ts";
import { type NodeId, splitNodeId } from "./protocol/node-id.ts";

/**
 * Assigns actors to nodes by rendezvous hashing (Thaler and Ravishankar, 1998) over the actor nodes of all hosts. Every
 * node computes the same result without communication. When a node or a host is added or removed, only the keys of its
 * nodes move. Actors of a host live on a node of that host.
 */
export class Placement {
  readonly nodes: readonly NodeId[];
  /** The contribution of each node to the hash of a key. */
  readonly #salts: readonly number[];
  /** The placement over the nodes of one host, by host name. */
  readonly #ofHosts = new Map<string, Placement>();

  constructor(nodes: readonly NodeId[]) {
    this.nodes = nodes;
    this.#salts = nodes.map(saltOf);
  }

  /** Returns the node of an actor. */
  nodeOf(actor: AnyAddress): NodeId {
    const { nodes } = this;
    const first = nodes[0];
    if (first === undefined) throw new Error("placement needs at least one node");
    if (nodes.length === 1) return first;
    const host = hostOf(actor);
    if (host !== null && !this.#isAllOf(host)) return this.#over(host).nodeOf(actor);
    const { kind, key } = placedWith(actor);
    const keyHash = hash(kind, hash(key, 0x811c9dc5));
    let best = first;
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

  /** True if all nodes are of this host, or none is. */
  #isAllOf(host: string): boolean {
    const own = this.nodes.filter((node) => splitNodeId(node).host === host).length;
    return own === 0 || own === this.nodes.length;
  }

  #over(host: string): Placement {
    const known = this.#ofHosts.get(host);
    if (known !== undefined) return known;
    const made = new Placement(this.nodes.filter((node) => splitNodeId(node).host === host));
    this.#ofHosts.set(host, made);
    return made;
  }
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
