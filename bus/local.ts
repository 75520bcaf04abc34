import type { Env } from "./env.ts";
import type { Batch } from "./envelope.ts";
import { Link } from "./link.ts";

/**
 * The link of a node to itself: batches arrive at the end of the turn in which they were sent, uncopied, so that delivery on
 * the same thread has the order and the credit of delivery to another. What is sent is not to be changed afterwards.
 */
export function localLink(env: Env, onBatch: (batch: Batch) => void): Link {
  const link = new Link(env, (batch) => {
    link.received(batch);
    onBatch(batch);
  });
  return link;
}
