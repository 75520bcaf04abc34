import { type Address, topicOf } from "./address.ts";
import type { Env } from "./env.ts";
import { type Batch, type Receiver, unpack } from "./envelope.ts";
import { SvcError, type WireError } from "./errors.ts";
import type { Link, Slot } from "./link.ts";
import { localLink } from "./local.ts";
import { place } from "./placement.ts";
import type { Channel, ChannelRef } from "./protocol/channel.ts";
import type { ActorKind, AskType, Body, MessageType, Reply } from "./protocol/kinds.ts";

// Three ways to speak, all in order between two nodes:
//
//   ask, tell    to an actor, wherever it lives; an ask has a deadline and an answer
//   channel      from a run to the one http stream that started it: text, joined once per turn of the event loop
//   topic        from an actor to every node where somebody listens: text, joined the same way
//
// Nothing here knows what the messages mean.

/** A message that has arrived for an actor of this node. */
export interface Delivery {
  readonly kind: string;
  readonly key: string;
  readonly type: string;
  readonly body: unknown;
  /** Epoch ms after which nobody waits for the answer; 0 for a tell. */
  readonly deadline: number;
  /** The node that asked, -1 for a tell. */
  readonly from: number;
  readonly correlation: number;
}

/** How long an answer is waited for, and what it may cost. */
export interface AskOptions {
  readonly deadlineMs?: number;
  /** Rough size of the body, for the credit of the link. */
  readonly bytes?: number;
  /** Called when the answer arrives, before anything that was sent after it; awaiting the promise comes later than that. */
  readonly onReply?: () => void;
}

interface PendingAsk {
  readonly node: number;
  readonly deadline: number;
  readonly resolve: (value: never) => void;
  readonly reject: (error: SvcError) => void;
  readonly onReply: (() => void) | undefined;
}

const defaultDeadlineMs = 10_000;
/** How often overdue asks are looked for: a deadline is kept to within this. */
const sweepMs = 100;
/** Asks and channels of one incarnation are numbered below this; 2^53 leaves room for 8,192 incarnations. */
const incarnationIds = 2 ** 40;

/** What a node's end of the bus is made of. */
export interface BusOptions {
  readonly env: Env;
  readonly node: number;
  /** How often this node was started before: what was meant for an earlier one is not taken for an answer to this one. */
  readonly incarnation: number;
  /** The nodes that hold actors, in the same order everywhere. */
  readonly actorNodes: readonly number[];
  /** Takes messages for actors of this node. */
  readonly deliver: (delivery: Delivery) => void;
}

/** A node's end of the bus. */
export class Bus {
  readonly env: Env;
  readonly node: number;
  /** What nobody could take, by cause; for metrics. */
  readonly dropped = { tell: 0, frame: 0, late_reply: 0 };
  readonly #actorNodes: readonly number[];
  readonly #deliver: (delivery: Delivery) => void;
  readonly #links = new Map<number, Link>();
  readonly #asks = new Map<number, PendingAsk>();
  readonly #channels = new Map<number, (text: string, last: boolean) => void>();
  readonly #topicHandlers = new Map<string, (text: string) => void>();
  readonly #subscribers = new Map<string, number[]>();
  readonly #lostListeners: ((node: number) => void)[] = [];
  #nextCorrelation: number;
  #nextChannel: number;
  #sweeping = false;

  constructor(options: BusOptions) {
    this.env = options.env;
    this.node = options.node;
    this.#actorNodes = options.actorNodes;
    this.#deliver = options.deliver;
    this.#nextCorrelation = options.incarnation * incarnationIds + 1;
    this.#nextChannel = this.#nextCorrelation;
    this.#links.set(
      options.node,
      localLink(options.env, (batch) => this.receive(options.node, batch)),
    );
  }

  /** Connects another node, or the one that takes the place of a lost one. */
  attach(node: number, link: Link): void {
    this.#links.set(node, link);
  }

  /** Takes a batch that `from` has sent. */
  receive(from: number, batch: Batch): void {
    unpack(from, batch.items, this.#receiver);
  }

  /** A node is gone: what was asked of it fails as actor_lost, and who listens for that is told. */
  lost(node: number): void {
    this.#links.get(node)?.close();
    this.#links.delete(node);
    for (const [correlation, ask] of this.#asks) {
      if (ask.node !== node) continue;
      this.#asks.delete(correlation);
      ask.reject(new SvcError("actor_lost"));
    }
    for (const [topic, nodes] of this.#subscribers) this.#removeSubscriber(topic, nodes, node);
    for (const listener of this.#lostListeners) listener(node);
  }

  onLost(listener: (node: number) => void): void {
    this.#lostListeners.push(listener);
  }

  /** The nodes that hold actors. */
  get actorNodes(): readonly number[] {
    return this.#actorNodes;
  }

  /** Where an actor lives. */
  nodeOf(address: Address): number {
    if (address.kind === "node") return Number(address.key);
    return place(address.kind, address.key, this.#actorNodes);
  }

  /**
   * Asks an actor and waits for its answer. Refusals of the actor arrive as SvcError. `deadline_exceeded` and `actor_lost` mean
   * that the outcome is unknown: ask again by id. `mailbox_full` means that nothing was done.
   */
  ask<K extends ActorKind, T extends AskType<K>>(
    to: Address<K>,
    type: T,
    body: Body<K, T>,
    options: AskOptions = {},
  ): Promise<Reply<K, T>> {
    const node = this.nodeOf(to);
    const link = this.#links.get(node);
    if (!link) return Promise.reject(new SvcError("actor_lost"));
    if (!link.writable) return Promise.reject(new SvcError("mailbox_full"));
    const correlation = this.#nextCorrelation++;
    const deadline = this.env.now() + (options.deadlineMs ?? defaultDeadlineMs);
    return new Promise<Reply<K, T>>((resolve, reject) => {
      this.#asks.set(correlation, { node, deadline, resolve, reject, onReply: options.onReply });
      this.#sweepLater();
      link.ask(correlation, to.kind, to.key, type, body, deadline, options.bytes ?? 256);
    });
  }

  /** Sends at most once, without an answer; counted in `dropped` when it cannot be sent. */
  tell<K extends ActorKind, T extends MessageType<K>>(to: Address<K>, type: T, body: Body<K, T>): void {
    const link = this.#links.get(this.nodeOf(to));
    if (link?.writable) link.tell(to.kind, to.key, type, body);
    else this.dropped.tell++;
  }

  /** Answers a delivery. */
  reply(to: Delivery, value: unknown): void {
    if (to.from >= 0) this.#links.get(to.from)?.reply(to.correlation, value);
  }

  /** Answers a delivery with a refusal; one of a tell can only be counted. */
  refuse(to: Delivery, error: SvcError): void {
    if (to.from >= 0) this.#links.get(to.from)?.refuse(to.correlation, error.toWire());
    else this.dropped.tell++;
  }

  /** Opens the receiving end of a channel; it closes with its last text, or with closeChannel. */
  openChannel(onText: (text: string, last: boolean) => void): ChannelRef {
    const id = this.#nextChannel++;
    this.#channels.set(id, onText);
    return { node: this.node, id };
  }

  closeChannel(ref: ChannelRef): void {
    this.#channels.delete(ref.id);
  }

  /** The sending end of a channel that another node, or this one, has opened. What is sent after that node is lost is dropped. */
  channel(ref: ChannelRef): Channel {
    const slot: Slot = { batch: 0, index: 0 };
    // Kept: the link to a replacement is another one, and nobody there knows the channel.
    const link = this.#links.get(ref.node);
    return {
      get writable() {
        return link?.writable ?? true;
      },
      onWritable: (work) => {
        if (link) link.onWritable(work);
        else this.env.defer(work);
      },
      send: (text, last) => {
        if (!link || link.closed) this.dropped.frame++;
        else link.frame(slot, ref.id, text, last);
      },
    };
  }

  /** Listens to what an actor publishes. One handler for each address on a node. */
  subscribe(to: Address, onText: (text: string) => void): void {
    const topic = topicOf(to);
    this.#topicHandlers.set(topic, onText);
    this.#links.get(this.nodeOf(to))?.subscribe(topic);
  }

  unsubscribe(to: Address): void {
    const topic = topicOf(to);
    this.#topicHandlers.delete(topic);
    this.#links.get(this.nodeOf(to))?.unsubscribe(topic);
  }

  /** Whether anybody listens: what nobody hears need not be encoded. */
  hasSubscribers(topic: string): boolean {
    return this.#subscribers.has(topic);
  }

  /** Sends text to every node that listens to the topic of an address; see `topicOf`. */
  publish(topic: string, text: string): void {
    const nodes = this.#subscribers.get(topic);
    if (!nodes) return;
    for (const node of nodes) this.#links.get(node)?.topic(topic, text);
  }

  readonly #receiver: Receiver = {
    onAsk: (from, correlation, kind, key, type, body, deadline) =>
      this.#deliver({ kind, key, type, body, deadline, from, correlation }),
    onTell: (kind, key, type, body) => this.#deliver({ kind, key, type, body, deadline: 0, from: -1, correlation: 0 }),
    onReply: (correlation, value) => {
      const ask = this.#settle(correlation);
      ask?.onReply?.();
      ask?.resolve(value as never);
    },
    onRefuse: (correlation, error: WireError) => this.#settle(correlation)?.reject(SvcError.fromWire(error)),
    onFrame: (channel, text, last) => {
      const onText = this.#channels.get(channel);
      if (last) this.#channels.delete(channel);
      if (onText) onText(text, last);
      else this.dropped.frame++;
    },
    onTopic: (topic, text) => this.#topicHandlers.get(topic)?.(text),
    onSubscribe: (from, topic) => {
      const nodes = this.#subscribers.get(topic);
      if (!nodes) this.#subscribers.set(topic, [from]);
      else if (!nodes.includes(from)) nodes.push(from);
    },
    onUnsubscribe: (from, topic) => {
      const nodes = this.#subscribers.get(topic);
      if (nodes) this.#removeSubscriber(topic, nodes, from);
    },
  };

  #settle(correlation: number): PendingAsk | undefined {
    const ask = this.#asks.get(correlation);
    if (ask) this.#asks.delete(correlation);
    else this.dropped.late_reply++;
    return ask;
  }

  #removeSubscriber(topic: string, nodes: number[], node: number): void {
    const left = nodes.filter((other) => other !== node);
    if (left.length === 0) this.#subscribers.delete(topic);
    else this.#subscribers.set(topic, left);
  }

  #sweepLater(): void {
    if (this.#sweeping) return;
    this.#sweeping = true;
    this.env.timer(sweepMs, this.#sweep);
  }

  #sweep = (): void => {
    this.#sweeping = false;
    const now = this.env.now();
    for (const [correlation, ask] of this.#asks) {
      if (ask.deadline > now) continue;
      this.#asks.delete(correlation);
      ask.reject(new SvcError("deadline_exceeded"));
    }
    if (this.#asks.size > 0) this.#sweepLater();
  };
}
