import { MessageChannel, type MessagePort } from "node:worker_threads";
import type { Env } from "./env.ts";
import type { Batch } from "./envelope.ts";
import { Link } from "./link.ts";

/** What a link needs of a MessagePort. */
export interface BatchPort {
  postMessage(batch: Batch): void;
  on(event: "message", onBatch: (batch: Batch) => void): unknown;
}

/** A link over a MessagePort to another thread. `onBatch` gets what the other side sends, after the credit is booked. */
export function portLink(env: Env, port: BatchPort, onBatch: (batch: Batch) => void): Link {
  const link = new Link(env, (batch) => port.postMessage(batch));
  port.on("message", (batch: Batch) => {
    // What a lost node has sent before its end would be taken for words of its replacement.
    if (link.closed) return;
    link.received(batch);
    onBatch(batch);
  });
  return link;
}

/** Both ends of a new connection between two threads. */
export function portPair(): [MessagePort, MessagePort] {
  const { port1, port2 } = new MessageChannel();
  return [port1, port2];
}
