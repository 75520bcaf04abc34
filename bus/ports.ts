import { MessageChannel, type MessagePort } from "node:worker_threads";
import type { Batch } from "./envelope.ts";
import type { Transport } from "./transport.ts";

const creditBytes = 8 * 1024 * 1024;

/** Transport to another thread. */
export function portTransport(port: MessagePort): Transport {
  let closed = false;
  return {
    creditBytes,
    prompt: false,
    post: (batch) => port.postMessage(batch),
    onBatch: (take) => void port.on("message", (batch: Batch) => closed || take(batch)),
    onClosed: (work) => void port.on("close", () => closed || work()),
    close() {
      closed = true;
      port.close();
    },
  };
}

/** Returns both ends of a new connection between two threads. */
export function portPair(): [MessagePort, MessagePort] {
  const { port1, port2 } = new MessageChannel();
  return [port1, port2];
}
