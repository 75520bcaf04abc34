/** How long a step or a webhook rests after its first failure; then twice as long after each, up to the longest. */
const firstMs = 60_000;
/** The longest rest. No row names a time further ahead, unless a clock was. */
export const longestBackOffMs = 3_600_000;

/** Milliseconds until the next attempt, after so many that have failed. */
export function backOffMs(failures: number): number {
  return failures <= 0 ? 0 : Math.min(longestBackOffMs, firstMs * 2 ** Math.min(failures - 1, 16));
}
