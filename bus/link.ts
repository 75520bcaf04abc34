import type { Env } from "./env.ts";
import { type Batch, op, protocolVersion } from "./envelope.ts";
import type { WireError } from "./errors.ts";
import type { NodeId } from "./protocol/node-id.ts";
import type { Transport } from "./transport.ts";

/** Bytes that one operation counts in addition to its text. */
const operationBytes = 64;
/**
 * Max consecutive prompt batches. After that one waits for the end of the turn, so that actors that message each other
 * endlessly do not block others.
 */
const promptBatchesMax = 100;

/** A position in the batch under construction, by which frames of one stream join into one string. */
export interface Slot {
  batch: number;
  index: number;
}

/** The part of a transport that a link uses. */
type Carrier = Pick<Transport, "creditBytes" | "prompt" | "post">;

/**
 * One direction of the connection to another node. The operations of one event-loop turn are sent as one batch:
 * separate sends cost three times as much (but see `prompt` of Transport). Credit bounds the bytes in transit. Without
 * credit, operations are buffered, frames of one stream join, and `writable` is false, so that senders pause.
 */
export class Link {
  readonly #env: Env;
  readonly #transport: Carrier;
  readonly #creditBytes: number;
  readonly #prompt: boolean;
  #items: unknown[] = [];
  #bytes = 0;
  #outstanding = 0;
  #owed = 0;
  #scheduled = false;
  #scheduledSoon = false;
  #promptBatches = 0;
  #batch = 1;
  #topicSlots = new Map<string, number>();
  #waiting: (() => void)[] = [];
  #closed = false;

  constructor(env: Env, transport: Carrier) {
    this.#env = env;
    this.#transport = transport;
    this.#creditBytes = transport.creditBytes;
    this.#prompt = transport.prompt;
  }

  /** False while the bytes that the other side has not handled exceed the credit. */
  get writable(): boolean {
    return this.#outstanding + this.#bytes < this.#creditBytes;
  }

  /** True after the loss of the other node: sends are dropped, and its late messages must be ignored. */
  get closed(): boolean {
    return this.#closed;
  }

  /** Calls `work` once when `writable` becomes true or the link closes; never synchronously. */
  onWritable(work: () => void): void {
    if (this.#closed || this.writable) this.#env.defer(work);
    else this.#waiting.push(work);
  }

  ask(
    correlation: number,
    kind: string,
    key: string,
    type: string,
    body: unknown,
    deadline: number,
    bytes: number,
  ): void {
    this.#items.push(op.ask, correlation, kind, key, type, body, deadline);
    this.#grew(operationBytes + bytes, this.#prompt);
  }

  tell(kind: string, key: string, type: string, body: unknown): void {
    this.#items.push(op.tell, kind, key, type, body);
    this.#grew(operationBytes, this.#prompt);
  }

  reply(correlation: number, value: unknown): void {
    this.#endTopicJoins();
    this.#items.push(op.reply, correlation, value);
    this.#grew(operationBytes, this.#prompt);
  }

  refuse(correlation: number, error: WireError): void {
    this.#items.push(op.refuse, correlation, error);
    this.#grew(operationBytes, this.#prompt);
  }

  moved(correlation: number, to: NodeId): void {
    this.#items.push(op.moved, correlation, to);
    this.#grew(operationBytes, this.#prompt);
  }

  /** Each channel has its own `slot`, through which its frames of one event-loop turn join. */
  frame(slot: Slot, channel: number, text: string, last: boolean): void {
    if (slot.batch === this.#batch) {
      this.#items[slot.index + 2] += text;
      if (last) this.#items[slot.index + 3] = 1;
    } else {
      slot.batch = this.#batch;
      slot.index = this.#items.length;
      this.#items.push(op.frame, channel, text, last ? 1 : 0);
    }
    this.#grew(text.length, false);
  }

  topic(topic: string, text: string): void {
    const index = this.#topicSlots.get(topic);
    if (index === undefined) {
      this.#topicSlots.set(topic, this.#items.length);
      this.#items.push(op.topic, topic, text);
    } else {
      this.#items[index + 2] += text;
    }
    this.#grew(text.length, false);
  }

  subscribe(topic: string): void {
    this.#items.push(op.subscribe, topic);
    this.#grew(operationBytes, false);
  }

  unsubscribe(topic: string): void {
    this.#items.push(op.unsubscribe, topic);
    this.#grew(operationBytes, false);
  }

  lives(topic: string, node: NodeId): void {
    this.#items.push(op.lives, topic, node);
    this.#grew(operationBytes, false);
  }

  /** Accounts for a received batch, which will be handled by the end of this turn. */
  received(batch: Batch): void {
    if (batch.ack > 0) {
      this.#outstanding -= batch.ack;
      if (this.#items.length > 0 && !this.#scheduledSoon) this.#schedule();
      if (this.#waiting.length > 0 && this.writable) this.#wake();
    }
    this.#owed += batch.bytes;
    // The credit is returned with the next batch; a large amount schedules one now.
    if (this.#owed >= this.#creditBytes / 8) this.#schedule();
  }

  /** Handles the loss of the other node. */
  close(): void {
    this.#closed = true;
    this.#items = [];
    this.#endTopicJoins();
    this.#bytes = 0;
    this.#outstanding = 0;
    this.#batch++;
    this.#wake();
  }

  /**
   * Prevents joins across a reply: a subscriber hears what is published after the reply, so later text must not join
   * earlier text.
   */
  #endTopicJoins(): void {
    if (this.#topicSlots.size > 0) this.#topicSlots.clear();
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const work of waiting) work();
  }

  #grew(bytes: number, soon: boolean): void {
    this.#bytes += bytes;
    if (soon && this.#promptBatches < promptBatchesMax) this.#scheduleSoon();
    else this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled || this.#closed) return;
    this.#scheduled = true;
    this.#env.defer(this.#endTurn);
  }

  #scheduleSoon(): void {
    if (this.#scheduledSoon || this.#closed) return;
    this.#scheduledSoon = true;
    this.#promptBatches++;
    this.#env.soon(this.#endPrompt);
  }

  #endTurn = (): void => {
    this.#scheduled = false;
    this.#promptBatches = 0;
    this.#flush();
  };

  #endPrompt = (): void => {
    this.#scheduledSoon = false;
    this.#flush();
  };

  #flush(): void {
    if (this.#closed) return;
    const ack = this.#owed;
    if (this.#outstanding >= this.#creditBytes) {
      // Without credit, only returns the other side's credit; otherwise both sides could wait for each other.
      if (ack > 0) this.#send(ack, 0, []);
      return;
    }
    if (this.#items.length === 0 && ack === 0) return;
    const items = this.#items;
    const bytes = this.#bytes;
    this.#items = [];
    this.#bytes = 0;
    this.#batch++;
    this.#endTopicJoins();
    this.#outstanding += bytes;
    this.#send(ack, bytes, items);
  }

  #send(ack: number, bytes: number, items: unknown[]): void {
    this.#owed = 0;
    this.#transport.post({ version: protocolVersion, ack, bytes, items });
  }
}
