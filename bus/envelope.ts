import type { WireError } from "./errors.ts";
import type { NodeId } from "./protocol/node-id.ts";

/**
 * Version of the operations and their fields. Threads of a process speak this one. Hosts also speak the version before it: a connection
 * uses the lower version of both.
 */
export const protocolVersion = 1;

/** Returns true if hosts that speak these versions understand each other. */
export function speaksWith(own: number, other: number): boolean {
  return Math.abs(own - other) <= 1;
}

/**
 * The messages from one node to another in one event-loop turn. They are one flat array, because structured clone
 * copies it several times faster than an array of objects.
 *
 * `items` is a sequence of operations, each an opcode and its fields:
 *
 *   ask          correlation  kind  key  type  body  deadline (on the monotonic clock, which all nodes of a host share)
 *   tell         kind  key  type  body
 *   reply        correlation  value
 *   refuse       correlation  WireError
 *   moved        correlation  node
 *   frame        channel  text  last (0 or 1)
 *   topic        topic  text
 *   subscribe    topic
 *   unsubscribe  topic
 *   lives        topic  node (on which the actor of the topic lives from now on)
 */
export interface Batch {
  /** Version of the protocol; the first field in every encoding. */
  readonly version: number;
  /** Bytes of earlier batches of the other direction that were handled, which returns their credit. */
  readonly ack: number;
  /** Approximate bytes of this batch, which its receiver acknowledges. */
  readonly bytes: number;
  readonly items: readonly unknown[];
}

export const op = {
  ask: 0,
  tell: 1,
  reply: 2,
  refuse: 3,
  frame: 4,
  topic: 5,
  subscribe: 6,
  unsubscribe: 7,
  moved: 8,
  lives: 9,
} as const;

/** Number of fields of each operation, with its opcode. */
const lengths: Readonly<Record<number, number>> = {
  [op.ask]: 7,
  [op.tell]: 5,
  [op.reply]: 3,
  [op.refuse]: 3,
  [op.frame]: 4,
  [op.topic]: 3,
  [op.subscribe]: 2,
  [op.unsubscribe]: 2,
  [op.moved]: 3,
  [op.lives]: 3,
};

/** Returns the operations with their deadlines moved: monotonic clocks of two hosts have nothing in common. */
export function shiftDeadlines(items: readonly unknown[], byMs: number): readonly unknown[] {
  let shifted: unknown[] | null = null;
  for (let i = 0; i < items.length; ) {
    const code = items[i] as number;
    const length = lengths[code];
    if (length === undefined) throw new Error(`unknown operation ${String(code)} at ${i}`);
    if (code === op.ask) {
      shifted ??= [...items];
      shifted[i + 6] = (items[i + 6] as number) + byMs;
    }
    i += length;
  }
  return shifted ?? items;
}

/** A node uses a protocol version that this one does not know. */
export class UnknownProtocol extends Error {
  override readonly name = "UnknownProtocol";

  constructor(version: unknown, expected = protocolVersion) {
    super(`speaks version ${String(version)} of the bus, not ${expected}`);
  }
}

/** Handlers of received operations, called in order. */
export interface Receiver {
  onAsk(
    from: NodeId,
    correlation: number,
    kind: string,
    key: string,
    type: string,
    body: unknown,
    deadline: number,
  ): void;
  onTell(kind: string, key: string, type: string, body: unknown): void;
  onReply(correlation: number, value: unknown): void;
  onRefuse(correlation: number, error: WireError): void;
  onMoved(correlation: number, to: NodeId): void;
  onFrame(channel: number, text: string, last: boolean): void;
  onTopic(topic: string, text: string): void;
  onSubscribe(from: NodeId, topic: string): void;
  onUnsubscribe(from: NodeId, topic: string): void;
  onLives(topic: string, node: NodeId): void;
}

/** Calls the handler of every operation of a batch, in the order of sending. */
export function unpack(from: NodeId, items: readonly unknown[], receiver: Receiver): void {
  for (let i = 0; i < items.length; ) {
    switch (items[i]) {
      case op.ask:
        receiver.onAsk(
          from,
          items[i + 1] as number,
          items[i + 2] as string,
          items[i + 3] as string,
          items[i + 4] as string,
          items[i + 5],
          items[i + 6] as number,
        );
        i += 7;
        break;
      case op.tell:
        receiver.onTell(items[i + 1] as string, items[i + 2] as string, items[i + 3] as string, items[i + 4]);
        i += 5;
        break;
      case op.reply:
        receiver.onReply(items[i + 1] as number, items[i + 2]);
        i += 3;
        break;
      case op.refuse:
        receiver.onRefuse(items[i + 1] as number, items[i + 2] as WireError);
        i += 3;
        break;
      case op.moved:
        receiver.onMoved(items[i + 1] as number, items[i + 2] as NodeId);
        i += 3;
        break;
      case op.frame:
        receiver.onFrame(items[i + 1] as number, items[i + 2] as string, items[i + 3] === 1);
        i += 4;
        break;
      case op.topic:
        receiver.onTopic(items[i + 1] as string, items[i + 2] as string);
        i += 3;
        break;
      case op.subscribe:
        receiver.onSubscribe(from, items[i + 1] as string);
        i += 2;
        break;
      case op.unsubscribe:
        receiver.onUnsubscribe(from, items[i + 1] as string);
        i += 2;
        break;
      case op.lives:
        receiver.onLives(items[i + 1] as string, items[i + 2] as NodeId);
        i += 3;
        break;
      default:
        throw new Error(`unknown operation ${String(items[i])} at ${i}`);
    }
  }
}
