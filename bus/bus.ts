import { type Address, type AnyAddress, topicOf } from "./address.ts";
import { type PendingAsk, PendingAsks } from "./asks.ts";
import type { Env } from "./env.ts";
import { protocolVersion, type Receiver, UnknownProtocol, unpack } from "./envelope.ts";
import { SvcError, type WireError } from "./errors.ts";
import { Link } from "./link.ts";
import { localTransport } from "./local.ts";
import { Placement } from "./placement.ts";
import type { Channel, ChannelRef } from "./protocol/channel.ts";
import type { ActorKind, AskType, Body, MessageType, Reply } from "./protocol/kinds.ts";
import type { NodeId } from "./protocol/node-id.ts";
import { SendingEnd } from "./sending-end.ts";
import { SlotMap, SlotTable } from "./slot-map.ts";
import { Subscribers } from "./subscribers.ts";
import type { Transport } from "./transport.ts";

// Three ways to send a message, all in order between two nodes:
//
//   ask, tell    to an actor on any node; an ask has a deadline and a reply
//   channel      from a run to the one HTTP stream that started it: text, joined once per event-loop turn
//   topic        from an actor to every node with a subscriber: text, joined in the same way
//
// The bus does not interpret the messages.

/** A message that has arrived for an actor of this node. */
export interface Delivery {
  readonly kind: string;
  readonly key: string;
  readonly type: string;
  readonly body: unknown;
  /** Deadline of the ask on the monotonic clock; 0 for a tell. */
  readonly deadline: number;
  /** The node that sent the ask, null for a tell. */
  readonly from: NodeId | null;
  readonly correlation: number;
}

/** Options of an ask. */
export interface AskOptions {
  readonly deadlineMs?: number;
  /** Approximate size of the body, for the credit of the link. */
  readonly bytes?: number;
  /** Called when the reply arrives, before later messages are handled. Code after `await` runs later. */
  readonly onReply?: () => void;
  /**
   * True for actors that work together: on one node, ask and reply arrive before other input, unordered relative to
   * normal messages. Do not set it for asks of many clients, because normal asks of one event-loop turn are handled
   * together.
   */
  readonly prompt?: boolean;
}

type LostListener = (node: NodeId, cause: Error | null) => void;

interface Peer {
  readonly link: Link;
  readonly transport: Transport;
}

const defaultDeadlineMs = 10_000;
/** Number of ids per incarnation for asks and channels; 2^53 allows 8,192 incarnations. */
const incarnationIds = 2 ** 40;

/** Options of a node's end of the bus. */
export interface BusOptions {
  readonly env: Env;
  readonly node: NodeId;
  /** Number of earlier starts of this node. It prevents that messages to an earlier incarnation reach this one. */
  readonly incarnation: number;
  /** The nodes that hold actors, in the same order on every node. */
  readonly actorNodes: readonly NodeId[];
  /** Handles messages for actors of this node. */
  readonly deliver: (delivery: Delivery) => void;
}

/** A node's end of the bus. */
export class Bus {
  readonly env: Env;
  readonly node: NodeId;
  /** Numbers of dropped messages, by kind; for metrics. */
  readonly dropped = { tell: 0, frame: 0, late_reply: 0, batch: 0 };
  #placement: Placement;
  readonly #deliver: (delivery: Delivery) => void;
  readonly #peers = new Map<NodeId, Peer>();
  /** A second id for this node, for prompt messages. */
  readonly #promptNode: NodeId;
  readonly #asks: PendingAsks;
  readonly #channels: SlotTable<(text: string, last: boolean) => void>;
  readonly #topicHandlers = new SlotMap<(text: string) => void>();
  readonly #subscribers = new Subscribers();
  readonly #lostListeners: LostListener[] = [];
  readonly #placedListeners: (() => void)[] = [];

  constructor(options: BusOptions) {
    this.env = options.env;
    this.node = options.node;
    this.#placement = new Placement(options.actorNodes);
    this.#deliver = options.deliver;
    const firstId = options.incarnation * incarnationIds;
    this.#channels = new SlotTable(firstId);
    this.#asks = new PendingAsks(options.env, firstId, (correlation, ask) => this.#send(correlation, ask));
    this.connect(options.node, localTransport(false));
    this.#promptNode = `${options.node}!` as NodeId;
    this.connect(this.#promptNode, localTransport(true));
  }

  /** Connects another node, or the replacement of a lost one. The node counts as lost when its transport closes. */
  connect(node: NodeId, transport: Transport): void {
    const link = new Link(this.env, transport);
    this.#peers.set(node, { link, transport });
    transport.onBatch((batch) => {
      // Ignores late messages of a lost node, which would be attributed to its replacement.
      if (link.closed) return;
      if (batch.version !== protocolVersion) {
        this.dropped.batch++;
        this.lost(node, new UnknownProtocol(batch.version));
        return;
      }
      link.received(batch);
      unpack(node, batch.items, this.#receiver);
    });
    transport.onClosed(() => {
      if (!link.closed) this.lost(node);
    });
  }

  /**
   * Handles the loss of a node: rejects the asks to it as actor_lost and calls the listeners. `cause` is set if this
   * node gave it up.
   */
  lost(node: NodeId, cause: Error | null = null): void {
    const peer = this.#peers.get(node);
    // The loss is known already: the transport may close before the supervisor reports it.
    if (!peer) return;
    this.#peers.delete(node);
    peer.link.close();
    peer.transport.close();
    this.#asks.lost(node, cause);
    this.#subscribers.removeNode(node);
    for (const listener of this.#lostListeners) listener(node, cause);
  }

  onLost(listener: LostListener): void {
    this.#lostListeners.push(listener);
  }

  /** The nodes that hold actors. */
  get actorNodes(): readonly NodeId[] {
    return this.#placement.nodes;
  }

  /**
   * Places actors on other nodes from now on. Nodes learn of this at different times; until then asks are redirected.
   */
  placeOver(actorNodes: readonly NodeId[]): void {
    this.#placement = new Placement(actorNodes);
    for (const listener of this.#placedListeners) listener();
  }

  /** Calls `listener` after each change of the placement. */
  onPlaced(listener: () => void): void {
    this.#placedListeners.push(listener);
  }

  /** Returns the node of an actor. */
  nodeOf(actor: AnyAddress): NodeId {
    if (actor.kind === "node") return actor.key as NodeId;
    return this.#placement.nodeOf(actor);
  }

  /**
   * Sends an ask to an actor and returns its reply. Refusals of the actor arrive as SvcError. After `deadline_exceeded`
   * or `actor_lost` the outcome is unknown: ask again by id. After `mailbox_full` nothing was done. If the actor has
   * moved, the ask is redirected, and an earlier ask to it may then be handled later than this one.
   */
  ask<K extends ActorKind, T extends AskType<K>>(
    to: Address<K>,
    type: T,
    body: Body<K, T>,
    options: AskOptions = {},
  ): Promise<Reply<K, T>> {
    const { deadlineMs = defaultDeadlineMs, bytes = 256, onReply, prompt = false } = options;
    const home = this.nodeOf(to);
    const node = prompt && home === this.node ? this.#promptNode : home;
    const deadline = this.env.monotonic() + deadlineMs;
    return new Promise<Reply<K, T>>((resolve, reject) =>
      this.#asks.ask({
        kind: to.kind,
        key: to.key,
        type,
        body,
        bytes,
        node,
        moves: 0,
        deadline,
        resolve,
        reject,
        onReply,
      }),
    );
  }

  /** Sends a message at most once, without a reply. A message that cannot be sent is counted in `dropped`. */
  tell<K extends ActorKind, T extends MessageType<K>>(to: Address<K>, type: T, body: Body<K, T>): void {
    const link = this.#linkTo(this.nodeOf(to));
    if (link?.writable) link.tell(to.kind, to.key, type, body);
    else this.dropped.tell++;
  }

  /** Replies to a delivery. */
  reply(to: Delivery, value: unknown): void {
    if (to.from !== null) this.#linkTo(to.from)?.reply(to.correlation, value);
  }

  /** Refuses a delivery; a refused tell is only counted. */
  refuse(to: Delivery, error: SvcError): void {
    if (to.from !== null) this.#linkTo(to.from)?.refuse(to.correlation, error.toWire());
    else this.dropped.tell++;
  }

  /** Redirects the sender of an ask to the node where the actor lives; a tell is only counted. */
  moved(delivery: Delivery, to: NodeId): void {
    if (delivery.from !== null) this.#linkTo(delivery.from)?.moved(delivery.correlation, to);
    else this.dropped.tell++;
  }

  /** Opens the receiving end of a channel. It closes with its last text, or with closeChannel. */
  openChannel(onText: (text: string, last: boolean) => void): ChannelRef {
    return { node: this.node, id: this.#channels.add(onText) };
  }

  closeChannel(ref: ChannelRef): void {
    this.#channels.take(ref.id);
  }

  /** Returns the sending end of a channel. Texts are dropped after the loss of the receiving node. */
  channel(ref: ChannelRef): Channel {
    // The link is fixed here, because a replacement of the node does not know the channel.
    return new SendingEnd(this.#linkTo(ref.node), ref.id, this.env, this.dropped);
  }

  /** Subscribes to an actor's topic. A node has one handler per address. */
  subscribe(to: Address, onText: (text: string) => void): void {
    const topic = topicOf(to);
    this.#topicHandlers.set(topic, onText);
    this.#linkTo(this.nodeOf(to))?.subscribe(topic);
  }

  unsubscribe(to: Address): void {
    const topic = topicOf(to);
    this.#topicHandlers.take(topic);
    this.#linkTo(this.nodeOf(to))?.unsubscribe(topic);
  }

  /** True if the topic has subscribers; otherwise its text need not be encoded. */
  hasSubscribers(topic: string): boolean {
    return this.#subscribers.of(topic) !== undefined;
  }

  /** Sends text to every node that subscribes to a topic; see `topicOf`. */
  publish(topic: string, text: string): void {
    const nodes = this.#subscribers.of(topic);
    if (!nodes) return;
    for (const node of nodes) this.#linkTo(node)?.topic(topic, text);
  }

  readonly #receiver: Receiver = {
    onAsk: (from, correlation, kind, key, type, body, deadline) =>
      this.#deliver({ kind, key, type, body, deadline, from, correlation }),
    onTell: (kind, key, type, body) =>
      this.#deliver({ kind, key, type, body, deadline: 0, from: null, correlation: 0 }),
    onReply: (correlation, value) => {
      const ask = this.#asks.take(correlation);
      if (!ask) this.dropped.late_reply++;
      ask?.onReply?.();
      ask?.resolve(value as never);
    },
    onRefuse: (correlation, error: WireError) => {
      const ask = this.#asks.take(correlation);
      if (!ask) this.dropped.late_reply++;
      ask?.reject(SvcError.fromWire(error));
    },
    onMoved: (correlation, to) => {
      if (!this.#asks.moved(correlation, to)) this.dropped.late_reply++;
    },
    onFrame: (channel, text, last) => {
      const onText = last ? this.#channels.take(channel) : this.#channels.get(channel);
      if (onText) onText(text, last);
      else this.dropped.frame++;
    },
    onTopic: (topic, text) => this.#topicHandlers.get(topic)?.(text),
    onSubscribe: (from, topic) => this.#subscribers.add(topic, from),
    onUnsubscribe: (from, topic) => this.#subscribers.remove(topic, from),
  };

  #send(correlation: number, { node, kind, key, type, body, deadline, bytes }: PendingAsk): void {
    const link = this.#linkTo(node);
    if (!link) throw new SvcError("actor_lost");
    if (!link.writable) throw new SvcError("mailbox_full");
    link.ask(correlation, kind, key, type, body, deadline, bytes);
  }

  #linkTo(node: NodeId): Link | undefined {
    return this.#peers.get(node)?.link;
  }
}
