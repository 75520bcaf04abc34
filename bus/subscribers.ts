import type { NodeId } from "./protocol/node-id.ts";

/** The nodes that subscribe to topics of this node's actors. */
export class Subscribers {
  readonly #nodes = new Map<string, NodeId[]>();

  /** Returns the subscribers of a topic; undefined for none. */
  of(topic: string): readonly NodeId[] | undefined {
    return this.#nodes.get(topic);
  }

  add(topic: string, node: NodeId): void {
    const nodes = this.#nodes.get(topic);
    if (!nodes) this.#nodes.set(topic, [node]);
    else if (!nodes.includes(node)) nodes.push(node);
  }

  remove(topic: string, node: NodeId): void {
    const left = this.#nodes.get(topic)?.filter((other) => other !== node) ?? [];
    if (left.length === 0) this.#nodes.delete(topic);
    else this.#nodes.set(topic, left);
  }

  /** Removes all subscriptions to a topic. */
  removeTopic(topic: string): void {
    this.#nodes.delete(topic);
  }

  /** Removes all subscriptions of a node. */
  removeNode(node: NodeId): void {
    for (const topic of [...this.#nodes.keys()]) this.remove(topic, node);
  }
}
