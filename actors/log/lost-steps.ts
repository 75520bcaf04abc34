/** A step of a durable run may be lost with its process so often; then the run is dead. */
export const lostMax = 20;

/** So often it is taken up again at once. */
const atOnceMax = 3;
const backOffMsMax = 300_000;

/**
 * How long a step rests that has gone with its process, by how often it had before. A run that ends its process takes those beside it
 * along each time: apart from it they come to their ends, and it is left alone with its losses.
 */
export function lostBackOffMs(lost: number): number {
  if (lost < atOnceMax || lost + 1 >= lostMax) return 0;
  return Math.min(1_000 * 2 ** (lost - atOnceMax), backOffMsMax);
}
