/**
 * Id of a node: its host, and its number there. A string, because it is often compared and used as a key, and rarely
 * split.
 */
export type NodeId = `${string}/${number}`;

/** Returns the id of a node. */
export function nodeId(host: string, number: number): NodeId {
  return `${host}/${number}`;
}

/** Splits the id of a node into host and number. */
export function splitNodeId(node: NodeId): { host: string; number: number } {
  const slash = node.lastIndexOf("/");
  return { host: node.slice(0, slash), number: Number(node.slice(slash + 1)) };
}
