/**
 * Ranks of a channel count from this number. With the usual 60 (decision 137) the ranks of a channel hardly differ, so that a text in the
 * middle of both lists passes the first of one list: recall@5 of the questions of perf/retrieval-set.ts was up to 5 points lower than that
 * of the better channel. With 5 it is at most 1 point lower.
 */
const fusionRank = 5;

/** A key with its rank over all channels. */
export interface Fused<Channel extends string> {
  readonly key: number;
  /** The sum over the channels of 1 / (5 + rank). */
  readonly score: number;
  /** The channels that found the key. */
  readonly channels: readonly Channel[];
}

/** Merges the keys that channels found, best first, into one list (reciprocal rank fusion). A channel names a key once. */
export function fuse<Channel extends string>(
  found: Readonly<Record<Channel, readonly number[]>>,
  limit: number,
): Fused<Channel>[] {
  const fused = new Map<number, { key: number; score: number; channels: Channel[] }>();
  for (const [channel, keys] of Object.entries(found) as [Channel, readonly number[]][])
    for (const [at, key] of keys.entries()) {
      const entry = fused.get(key) ?? { key, score: 0, channels: [] };
      entry.score += 1 / (fusionRank + at + 1);
      entry.channels.push(channel);
      fused.set(key, entry);
    }
  return [...fused.values()].toSorted((one, other) => other.score - one.score || one.key - other.key).slice(0, limit);
}
