import type { AnyActorDefinition } from "../../actors/runtime/define.ts";
import { ActorHost } from "../../actors/runtime/host.ts";
import { Bus } from "../../bus/bus.ts";
import type { Batch } from "../../bus/envelope.ts";
import { type NodeId, nodeId } from "../../bus/protocol/node-id.ts";
import type { Transport } from "../../bus/transport.ts";
import type { Sim, SimEnv } from "./sim-env.ts";

// Nodes in a simulated world, with the real bus, links and actor host. Only the platform is simulated: transports,
// whose batches are copied and arrive after a random time, in order within one and in any order across them; threads
// that end without warning; and notices of the main thread, which reach each node at another time.

export interface SimNetOptions {
  readonly actorNodes: readonly number[];
  /** Nodes that only ask. */
  readonly otherNodes?: readonly number[];
  /** The host of a node; by default all are on one. */
  readonly hostOf?: (number: number) => string;
  readonly definitions: readonly AnyActorDefinition[];
  /** The services that the actors share; one for all nodes, so that a test can read it. */
  readonly deps?: unknown;
  /** The services of one node's actors, made for each incarnation; replaces `deps`. */
  readonly depsOf?: (node: number, env: SimEnv) => unknown;
  /** The maximum delay of a batch. */
  readonly delayMs?: number;
}

export interface SimNode {
  readonly number: number;
  readonly id: NodeId;
  readonly incarnation: number;
  readonly env: SimEnv;
  readonly bus: Bus;
  readonly host: ActorHost;
  /** The earliest arrival of the main thread's next notice: notices to one node keep their order. */
  controlAt: number;
}

/** A node of a network that has one host. */
export function simNode(number: number): NodeId {
  return nodeId(oneHost(), number);
}

const oneHost = (): string => "sim";

export interface Crash {
  readonly kind: string;
  readonly key: string;
  readonly error: unknown;
}

export class SimNet {
  readonly sim: Sim;
  /** Every crash of an actor, on any node. */
  readonly crashes: Crash[] = [];
  /** The protocol version of a node, if it differs from the current one. */
  readonly #versions = new Map<number, number>();
  /** Called for every batch that a node sends to another. */
  onPost: (from: number, to: number, batch: Batch) => void = () => {};
  readonly #options: SimNetOptions;
  readonly #delayMs: number;
  readonly #nodes = new Map<number, SimNode>();

  constructor(sim: Sim, options: SimNetOptions) {
    this.sim = sim;
    this.#options = options;
    this.#delayMs = options.delayMs ?? 5;
    for (const number of [...options.actorNodes, ...(options.otherNodes ?? [])]) this.#start(number, 0);
    const nodes = [...this.#nodes.values()];
    for (const [index, node] of nodes.entries()) {
      for (const other of nodes.slice(index + 1)) {
        const [left, right] = this.#transports(node, other);
        node.bus.connect(other.id, left);
        other.bus.connect(node.id, right);
      }
    }
  }

  /** From now on a node speaks another protocol version. */
  speakVersion(number: number, version: number): void {
    this.#versions.set(number, version);
  }

  /** The name of a node on the bus. */
  idOf(number: number): NodeId {
    return nodeId((this.#options.hostOf ?? oneHost)(number), number);
  }

  /** The present incarnation of a node. */
  node(number: number): SimNode {
    const node = this.#nodes.get(number);
    if (!node) throw new Error(`no node ${number}`);
    return node;
  }

  /**
   * Ends a node without warning. Its sent batches still arrive. Later the others learn of the loss, each at its own
   * time, and are connected with its replacement. Does nothing to a node that waits to be replaced.
   */
  kill(number: number): void {
    const { sim } = this;
    const lost = this.node(number);
    if (lost.env.ended) return;
    lost.env.end();
    lost.host.close();
    // The Env of the main thread, which never ends.
    sim.plan(sim.env(), sim.int(this.#delayMs * 4 + 1), () => this.#replace(lost));
  }

  /** Other nodes hold actors from now on; each node learns of it at its own time. */
  placeOver(actorNodes: readonly number[]): void {
    const ids = actorNodes.map((number) => this.idOf(number));
    for (const node of this.#nodes.values()) this.#control(node, () => node.bus.placeOver(ids));
  }

  #replace(lost: SimNode): void {
    const replacement = this.#start(lost.number, lost.incarnation + 1);
    for (const other of this.#nodes.values()) {
      if (other === replacement) continue;
      const [left, right] = this.#transports(replacement, other);
      this.#control(other, () => other.bus.lost(lost.id));
      this.#control(other, () => other.bus.connect(lost.id, right));
      this.#control(replacement, () => replacement.bus.connect(other.id, left));
    }
  }

  #start(number: number, incarnation: number): SimNode {
    const { actorNodes, definitions } = this.#options;
    const id = this.idOf(number);
    const env = this.sim.env();
    const deps = this.#options.depsOf?.(number, env) ?? this.#options.deps;
    const bus: Bus = new Bus({
      env,
      node: id,
      incarnation,
      actorNodes: actorNodes.map((each) => this.idOf(each)),
      deliver: (delivery) => host.deliver(delivery),
    });
    const host: ActorHost = new ActorHost({
      env,
      bus,
      deps,
      definitions,
      onCrash: (kind, key, error) => this.crashes.push({ kind, key, error }),
    });
    const node: SimNode = { number, id, incarnation, env, bus, host, controlAt: 0 };
    this.#nodes.set(number, node);
    return node;
  }

  #control(node: SimNode, work: () => void): void {
    const { sim } = this;
    node.controlAt = Math.max(node.controlAt, sim.now + sim.int(this.#delayMs * 2 + 1)) + 0.001;
    sim.plan(node.env, node.controlAt - sim.now, work);
  }

  #transports(a: SimNode, b: SimNode): [Transport, Transport] {
    return simTransports(this.sim, a.env, b.env, this.#delayMs, (isFirst, batch) => {
      const [from, to] = isFirst ? [a, b] : [b, a];
      this.onPost(from.number, to.number, batch);
      return { ...batch, version: this.#versions.get(from.number) ?? batch.version };
    });
  }
}

/**
 * The two ends of a connection between nodes; `sent` gets each batch with its sender's end, and returns the batch that
 * arrives.
 */
export function simTransports(
  sim: Sim,
  first: SimEnv,
  second: SimEnv,
  delayMs: number,
  sent: (isFirst: boolean, batch: Batch) => Batch = (_isFirst, batch) => batch,
): [Transport, Transport] {
  const toFirst = new Wire(sim, first, delayMs);
  const toSecond = new Wire(sim, second, delayMs);
  const end = (isFirst: boolean): Transport => {
    const [out, back] = isFirst ? [toSecond, toFirst] : [toFirst, toSecond];
    return {
      creditBytes: 8 * 1024 * 1024,
      prompt: false,
      post: (batch) => out.send(structuredClone(sent(isFirst, batch))),
      onBatch: (take) => back.listen(take),
      onClosed: (work) => back.onEnd(work),
      close() {
        back.stop();
        out.end();
      },
    };
  };
  return [end(true), end(false)];
}

/** One direction of a connection: batches arrive in order, later, and only when there is a listener. */
class Wire {
  readonly #sim: Sim;
  readonly #receiver: SimEnv;
  readonly #delayMs: number;
  /** Sent batches, null for the end. */
  readonly #onItsWay: (Batch | null)[] = [];
  #arrived = 0;
  #lastArrival = 0;
  #listener: ((batch: Batch) => void) | null = null;
  #ended: () => void = () => {};

  constructor(sim: Sim, receiver: SimEnv, delayMs: number) {
    this.#sim = sim;
    this.#receiver = receiver;
    this.#delayMs = delayMs;
  }

  send(batch: Batch | null): void {
    const { now } = this.#sim;
    // Whole milliseconds, so that many events coincide and the seed decides about their order.
    this.#lastArrival = Math.max(this.#lastArrival, now + this.#sim.int(this.#delayMs + 1));
    this.#onItsWay.push(batch);
    this.#sim.plan(this.#receiver, this.#lastArrival - now, () => {
      this.#arrived++;
      this.#hand();
    });
  }

  end(): void {
    this.send(null);
  }

  listen(onBatch: (batch: Batch) => void): void {
    this.#listener = onBatch;
    if (this.#arrived > 0) this.#sim.plan(this.#receiver, 0, () => this.#hand());
  }

  onEnd(work: () => void): void {
    this.#ended = work;
  }

  /** The receiver accepts nothing more. */
  stop(): void {
    this.#listener = () => {};
    this.#ended = () => {};
  }

  #hand(): void {
    while (this.#listener && this.#arrived > 0) {
      this.#arrived--;
      const batch = this.#onItsWay.shift();
      if (batch) this.#listener(batch);
      else this.#ended();
    }
  }
}
