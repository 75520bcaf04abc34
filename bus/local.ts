import type { Batch } from "./envelope.ts";
import type { Transport } from "./transport.ts";

/**
 * Bytes of one event-loop turn beyond which senders pause. More than between nodes, because outgoing frames and
 * incoming asks share one link here. The text of a thousand streams must not make it refuse asks.
 */
const creditBytes = 32 * 1024 * 1024;

const none: readonly unknown[] = [];

/**
 * Transport of a node to itself: a batch is handled when it is posted. It is not copied, so senders must not change its
 * contents afterwards. `prompt` as in `Transport`.
 */
export function localTransport(prompt: boolean): Transport {
  let take: (batch: Batch) => void = () => {};
  return {
    creditBytes,
    prompt,
    post(batch) {
      const { version, ack, bytes, items } = batch;
      take({ version, ack, bytes: 0, items });
      // The batch was handled, so its credit returns at once.
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
