/** Max process crashes during one step of a durable run; then the run is dead. */
export const lostMax = 20;

/** Number of crashes after which the step is still resumed at once. */
const atOnceMax = 3;
const backOffMsMax = 300_000;

/**
 * Returns the pause before a step that a crash interrupted is resumed, by the number of earlier crashes. A run that crashes its
 * process also interrupts concurrent runs. The growing pause separates it from them, so that they finish and only its own count
 * grows.
 */
export function lostBackOffMs(lost: number): number {
  if (lost < atOnceMax || lost + 1 >= lostMax) return 0;
  return Math.min(1_000 * 2 ** (lost - atOnceMax), backOffMsMax);
}
