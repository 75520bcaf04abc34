import type { NodeId } from "./protocol/node-id.ts";

/** Which nodes listen to what the actors of this one publish. */
export class Subscribers {
  readonly #nodes = new Map<string, NodeId[]>();

  /** Those that listen to a topic; undefined when nobody does. */
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

  /** A node listens to nothing any more. */
  removeNode(node: NodeId): void {
    for (const topic of [...this.#nodes.keys()]) this.remove(topic, node);
  }
}
