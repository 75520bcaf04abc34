import type { AnyActorDefinition } from "../../actors/runtime/define.ts";
import { ActorHost } from "../../actors/runtime/host.ts";
import { Bus } from "../../bus/bus.ts";
import type { Batch } from "../../bus/envelope.ts";
import { type BatchPort, portLink } from "../../bus/ports.ts";
import type { Sim, SimEnv } from "./sim-env.ts";

// Nodes in a simulated world, with the real bus, links and actor host. Only what the platform gives is simulated: ports, whose
// messages are copied and arrive after a random time, in order on one port and in any order across ports; threads that end
// without warning; and the main thread's word to the others, which reaches each at another time.

export interface SimNetOptions {
  readonly actorNodes: readonly number[];
  /** Nodes that only ask. */
  readonly otherNodes?: readonly number[];
  readonly definitions: readonly AnyActorDefinition[];
  /** What the actors share; one for all nodes, so that a test can look into it. */
  readonly deps?: unknown;
  /** How long a batch may be on its way. */
  readonly delayMs?: number;
}

export interface SimNode {
  readonly number: number;
  readonly incarnation: number;
  readonly env: SimEnv;
  readonly bus: Bus;
  readonly host: ActorHost;
  /** When the main thread's next word may arrive: words to one node keep their order. */
  controlAt: number;
}

export interface Crash {
  readonly kind: string;
  readonly key: string;
  readonly error: unknown;
}

export class SimNet {
  readonly sim: Sim;
  /** Every crash of an actor, on any node. */
  readonly crashes: Crash[] = [];
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
        const [left, right] = this.#ports(node, other);
        this.#attach(node, other.number, left);
        this.#attach(other, node.number, right);
      }
    }
  }

  /** The present incarnation of a node. */
  node(number: number): SimNode {
    const node = this.#nodes.get(number);
    if (!node) throw new Error(`no node ${number}`);
    return node;
  }

  /**
   * Ends a node without warning. What it has sent still arrives. Some time after that the others are told, each at its own
   * time, and are connected with its replacement. Does nothing to a node that waits to be replaced.
   */
  kill(number: number): void {
    const { sim } = this;
    const lost = this.node(number);
    if (lost.env.ended) return;
    lost.env.end();
    lost.host.close();
    // An Env that nobody ends: that of the main thread.
    sim.plan(sim.env(), sim.int(this.#delayMs * 4 + 1), () => this.#replace(lost));
  }

  #replace(lost: SimNode): void {
    const replacement = this.#start(lost.number, lost.incarnation + 1);
    for (const other of this.#nodes.values()) {
      if (other === replacement) continue;
      const [left, right] = this.#ports(replacement, other);
      this.#control(other, () => other.bus.lost(lost.number));
      this.#control(other, () => this.#attach(other, lost.number, right));
      this.#control(replacement, () => this.#attach(replacement, other.number, left));
    }
  }

  #start(number: number, incarnation: number): SimNode {
    const { actorNodes, definitions, deps } = this.#options;
    const env = this.sim.env();
    const bus: Bus = new Bus({
      env,
      node: number,
      incarnation,
      actorNodes,
      deliver: (delivery) => host.deliver(delivery),
    });
    const host: ActorHost = new ActorHost({
      env,
      bus,
      deps,
      definitions,
      onCrash: (kind, key, error) => this.crashes.push({ kind, key, error }),
    });
    const node: SimNode = { number, incarnation, env, bus, host, controlAt: 0 };
    this.#nodes.set(number, node);
    return node;
  }

  #attach(node: SimNode, to: number, port: BatchPort): void {
    const { bus, env } = node;
    bus.attach(
      to,
      portLink(env, port, (batch) => bus.receive(to, batch)),
    );
  }

  #control(node: SimNode, work: () => void): void {
    const { sim } = this;
    node.controlAt = Math.max(node.controlAt, sim.now + sim.int(this.#delayMs * 2 + 1)) + 0.001;
    sim.plan(node.env, node.controlAt - sim.now, work);
  }

  #ports(a: SimNode, b: SimNode): [BatchPort, BatchPort] {
    const toA = new Wire(this.sim, a.env, this.#delayMs);
    const toB = new Wire(this.sim, b.env, this.#delayMs);
    return [this.#port(a, b, toB, toA), this.#port(b, a, toA, toB)];
  }

  #port(from: SimNode, to: SimNode, out: Wire, back: Wire): BatchPort {
    return {
      postMessage: (batch) => {
        this.onPost(from.number, to.number, batch);
        out.send(structuredClone(batch));
      },
      on: (_event, onBatch) => back.listen(onBatch),
    };
  }
}

/** One direction of a port: what is sent arrives in order, later, and not before somebody listens. */
class Wire {
  readonly #sim: Sim;
  readonly #receiver: SimEnv;
  readonly #delayMs: number;
  readonly #onItsWay: Batch[] = [];
  #arrived = 0;
  #lastArrival = 0;
  #listener: ((batch: Batch) => void) | null = null;

  constructor(sim: Sim, receiver: SimEnv, delayMs: number) {
    this.#sim = sim;
    this.#receiver = receiver;
    this.#delayMs = delayMs;
  }

  send(batch: Batch): void {
    const { now } = this.#sim;
    // Whole milliseconds, so that much happens at the same time and the seed decides about its order.
    this.#lastArrival = Math.max(this.#lastArrival, now + this.#sim.int(this.#delayMs + 1));
    this.#onItsWay.push(batch);
    this.#sim.plan(this.#receiver, this.#lastArrival - now, () => {
      this.#arrived++;
      this.#hand();
    });
  }

  listen(onBatch: (batch: Batch) => void): void {
    this.#listener = onBatch;
    if (this.#arrived > 0) this.#sim.plan(this.#receiver, 0, () => this.#hand());
  }

  #hand(): void {
    while (this.#listener && this.#arrived > 0) {
      this.#arrived--;
      this.#listener(this.#onItsWay.shift() as Batch);
    }
  }
}
