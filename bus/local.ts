import type { Env } from "./env.ts";
import type { Batch } from "./envelope.ts";
import { Link } from "./link.ts";

/**
 * Bytes of one turn of the event loop beyond which senders hold back. More than to another node: here frames that go out and asks
 * that come in share one link, and an ask must not be refused because a thousand streams have said something.
 */
const localCreditBytes = 32 * 1024 * 1024;

/**
 * The link of a node to itself: batches arrive at the end of the turn in which they were sent, uncopied, so that delivery on
 * the same thread has the order of delivery to another. What is sent is not to be changed afterwards.
 */
export function localLink(env: Env, onBatch: (batch: Batch) => void): Link {
  const link = new Link(
    env,
    (batch) => {
      onBatch(batch);
      // It has been handled: the credit comes back at once.
      link.received({ ack: batch.bytes, bytes: 0, items: [] });
    },
    localCreditBytes,
  );
  return link;
}
