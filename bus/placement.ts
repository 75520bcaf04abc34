/**
 * Who lives where: rendezvous hashing (Thaler and Ravishankar, 1998). Every node computes the same answer without asking, and
 * when a node is added or taken away only the keys of that node move.
 */
export function place(kind: string, key: string, nodes: readonly number[]): number {
  const first = nodes[0];
  if (first === undefined) throw new Error("placement needs at least one node");
  if (nodes.length === 1) return first;
  const keyHash = hash(kind, hash(key, 0x811c9dc5));
  let best = first;
  let bestWeight = -1;
  for (const node of nodes) {
    const weight = mix(keyHash ^ Math.imul(node + 1, 0x9e3779b1));
    if (weight > bestWeight) {
      bestWeight = weight;
      best = node;
    }
  }
  return best;
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
