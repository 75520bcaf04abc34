/**
 * A node: the host that it is on, and its number there. One string, because it is a key, is compared and crosses in messages all the
 * time, and is hardly ever taken apart.
 */
export type NodeId = `${string}/${number}`;

/** What a node is called on the bus. */
export function nodeId(host: string, number: number): NodeId {
  return `${host}/${number}`;
}

/** The host and the number of a node. */
export function splitNodeId(node: NodeId): { host: string; number: number } {
  const slash = node.lastIndexOf("/");
  return { host: node.slice(0, slash), number: Number(node.slice(slash + 1)) };
}
