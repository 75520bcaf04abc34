import type { Batch } from "./envelope.ts";
import type { Transport } from "./transport.ts";

/**
 * Bytes of one turn of the event loop beyond which senders hold back. More than to another node: here frames that go out and asks
 * that come in share one link, and an ask must not be refused because a thousand streams have said something.
 */
const creditBytes = 32 * 1024 * 1024;

const none: readonly unknown[] = [];

/**
 * Carries what a node sends to itself: a batch is handled when it is posted. It is not copied: what is sent is not to be changed
 * afterwards. `prompt` as in `Transport`.
 */
export function localTransport(prompt: boolean): Transport {
  let take: (batch: Batch) => void = () => {};
  return {
    creditBytes,
    prompt,
    post(batch) {
      const { version, ack, bytes, items } = batch;
      take({ version, ack, bytes: 0, items });
      // It has been handled: the credit comes back at once.
      take({ version, ack: bytes, bytes: 0, items: none });
    },
    onBatch(taker) {
      take = taker;
    },
    onClosed() {},
    close() {
      take = () => {};
    },
  };
}
