/** Delay of a step or a webhook after its first failure; it doubles with each further one, up to the maximum. */
const firstMs = 60_000;
/** Max delay. No due time is further in the future, unless a clock was wrong. */
export const longestBackOffMs = 3_600_000;

/** Returns the milliseconds until the next attempt, after that many failures. */
export function backOffMs(failures: number): number {
  return failures <= 0 ? 0 : Math.min(longestBackOffMs, firstMs * 2 ** Math.min(failures - 1, 16));
}
