import { protocolVersion } from "../../bus/envelope.ts";
import type { ActorNodes } from "../../bus/placement.ts";
import { type NodeId, nodeId, splitNodeId } from "../../bus/protocol/node-id.ts";
import { RemoteNode } from "../../host/cluster/remote-node.ts";
import type { Sim, SimEnv } from "./sim-env.ts";

// The carrier between hosts in simulated time, below the real links. Entries of one host to another arrive in order after
// a random delay, and those of different hosts in any order. The carrier loses some entries, repeats some much later, lets
// some be overtaken, and holds some connections up. A host may be cut off from it, with a notice after a while, and two hosts may be cut off from
// each other, which only silence tells them.

/** The maximum delay of an entry between hosts that are well connected. */
const delayMs = 5;
/** The maximum time by which an entry is held up, overtaken, or repeated later. */
const lateMs = { held: 1_500, overtaken: 400, repeated: 20_000 };
/** One entry in this number meets each accident, while the network is not well. */
const accidentOf = 150;
/** The maximum time until a host that is cut off knows it. */
const noticeMs = 2_000;

interface Joined {
  readonly env: SimEnv;
  readonly remote: RemoteNode;
  isCut: boolean;
}

export class SimNetwork {
  /** Kinds of accidents so far. */
  readonly seen = new Set<string>();
  readonly #sim: Sim;
  readonly #hosts = new Map<string, Joined>();
  /** Pairs of hosts between which nothing arrives. */
  readonly #parted = new Set<string>();
  /** When the last entry of one host to another arrives. */
  readonly #lastArrivals = new Map<string, number>();
  #isWell = false;

  constructor(sim: Sim) {
    this.#sim = sim;
  }

  /** Connects a host, and returns its end. */
  join(host: string, env: SimEnv): RemoteNode {
    const remote = new RemoteNode(env, host, protocolVersion);
    this.#hosts.set(host, { env, remote, isCut: false });
    remote.connect((to, entry) => this.#send(host, splitNodeId(to).host, Uint8Array.from(entry)));
    remote.take({ kind: "cut", isCut: false });
    return remote;
  }

  /** Tells a host which hosts are there, and over which nodes actors are placed. */
  show(host: string, hosts: readonly string[]): void {
    const nodes: NodeId[] = hosts.map(nodeOf);
    const actorNodes: ActorNodes = { api: nodes, worker: nodes, all: nodes };
    this.#hosts.get(host)?.remote.take({ kind: "view", hosts, actorNodes });
  }

  /** Cuts a host off. It knows that after a while, unless the cut is over by then. */
  cut(host: string, ms: number): void {
    const joined = this.#hosts.get(host);
    if (joined === undefined || joined.isCut) return;
    this.seen.add("a host is cut off");
    joined.isCut = true;
    const noticedIn = this.#sim.int(noticeMs);
    joined.env.timer(noticedIn, () => {
      if (!joined.isCut) return;
      this.seen.add("a host knows that it is cut off");
      joined.remote.take({ kind: "cut", isCut: true });
    });
    joined.env.timer(ms, () => this.#rejoin(joined));
  }

  /** Cuts two hosts off from each other, without a notice. */
  part(one: string, other: string, ms: number): void {
    this.seen.add("two hosts are parted");
    const pair = pairOf(one, other);
    this.#parted.add(pair);
    this.#sim.plan(this.#sim.env(), ms, () => void this.#parted.delete(pair));
  }

  /** From now on every entry arrives. */
  heal(): void {
    this.#isWell = true;
    this.#parted.clear();
    for (const joined of this.#hosts.values()) this.#rejoin(joined);
  }

  #rejoin(joined: Joined): void {
    joined.isCut = false;
    joined.remote.take({ kind: "cut", isCut: false });
  }

  #send(from: string, to: string, entry: Uint8Array): void {
    const sim = this.#sim;
    const link = `${from}>${to}`;
    const soon = sim.now + sim.int(delayMs + 1);
    const accident = this.#isWell ? accidentOf : sim.int(accidentOf);
    let at = Math.max(this.#lastArrivals.get(link) ?? 0, soon);
    if (accident === 0) {
      this.seen.add("an entry is lost");
      // The sender knows that Redis did not take it, or does not.
      if (sim.int(2) === 0) this.#tellUndelivered(from, to);
      return;
    }
    if (accident === 1) {
      this.seen.add("an entry is overtaken");
      this.#bring(from, to, entry, soon + sim.int(lateMs.overtaken));
      return;
    }
    if (accident === 2) {
      this.seen.add("a connection is held up");
      at += sim.int(lateMs.held);
    }
    if (accident === 3) {
      this.seen.add("an entry is repeated");
      this.#bring(from, to, entry, at + sim.int(lateMs.repeated));
    }
    this.#lastArrivals.set(link, at);
    this.#bring(from, to, entry, at);
  }

  #bring(from: string, to: string, entry: Uint8Array, at: number): void {
    const receiver = this.#hosts.get(to);
    if (receiver === undefined || this.#isAway(from, to)) return;
    this.#sim.plan(receiver.env, at - this.#sim.now, () => {
      if (!this.#isAway(from, to)) receiver.remote.take({ kind: "take", from: nodeOf(from), entry });
    });
  }

  #tellUndelivered(from: string, to: string): void {
    const sender = this.#hosts.get(from);
    sender?.env.timer(this.#sim.int(delayMs), () => sender.remote.take({ kind: "undelivered", node: nodeOf(to) }));
  }

  #isAway(from: string, to: string): boolean {
    return this.#parted.has(pairOf(from, to)) || [from, to].some((host) => this.#hosts.get(host)?.isCut === true);
  }
}

function nodeOf(host: string): NodeId {
  return nodeId(host, 0);
}

function pairOf(one: string, other: string): string {
  return [one, other].sort().join(" ");
}
