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
  /** When nobody waits for the answer any more, on the monotonic clock; 0 for a tell. */
  readonly deadline: number;
  /** The node that asked, null for a tell. */
  readonly from: NodeId | null;
  readonly correlation: number;
}

/** How long an answer is waited for, and what it may cost. */
export interface AskOptions {
  readonly deadlineMs?: number;
  /** Rough size of the body, for the credit of the link. */
  readonly bytes?: number;
  /** Called when the answer arrives, before anything that was sent after it; awaiting the promise comes later than that. */
  readonly onReply?: () => void;
  /**
   * Between actors that work together: on one node ask and answer arrive before anything else is read, and in no order with what goes
   * the usual way. Whoever serves a crowd asks the usual way: what many ask in one turn of the event loop is then done together.
   */
  readonly prompt?: boolean;
}

type LostListener = (node: NodeId, cause: Error | null) => void;

interface Peer {
  readonly link: Link;
  readonly transport: Transport;
}

const defaultDeadlineMs = 10_000;
/** Asks and channels of one incarnation are numbered below this; 2^53 leaves room for 8,192 incarnations. */
const incarnationIds = 2 ** 40;

/** What a node's end of the bus is made of. */
export interface BusOptions {
  readonly env: Env;
  readonly node: NodeId;
  /** How often this node was started before: what was meant for an earlier one is not taken for an answer to this one. */
  readonly incarnation: number;
  /** The nodes that hold actors, in the same order everywhere. */
  readonly actorNodes: readonly NodeId[];
  /** Takes messages for actors of this node. */
  readonly deliver: (delivery: Delivery) => void;
}

/** A node's end of the bus. */
export class Bus {
  readonly env: Env;
  readonly node: NodeId;
  /** What nobody could take, by cause; for metrics. */
  readonly dropped = { tell: 0, frame: 0, late_reply: 0, batch: 0 };
  #placement: Placement;
  readonly #deliver: (delivery: Delivery) => void;
  readonly #peers = new Map<NodeId, Peer>();
  /** This node again, for what goes promptly. */
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

  /** Connects another node, or the one that takes the place of a lost one; it counts as lost when its transport closes. */
  connect(node: NodeId, transport: Transport): void {
    const link = new Link(this.env, transport);
    this.#peers.set(node, { link, transport });
    transport.onBatch((batch) => {
      // What a lost node has sent before its end would be taken for words of its replacement.
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

  /** A node is gone: what was asked of it fails as actor_lost, and who listens for that is told; `cause`, where this node gives it up. */
  lost(node: NodeId, cause: Error | null = null): void {
    const peer = this.#peers.get(node);
    // Known already: its transport may close before who watches over the nodes says so.
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

  /** Other nodes hold actors from now on. Every node is told, each at its own time; meanwhile asks are sent on. */
  placeOver(actorNodes: readonly NodeId[]): void {
    this.#placement = new Placement(actorNodes);
    for (const listener of this.#placedListeners) listener();
  }

  /** Calls `listener` after actors have got other places. */
  onPlaced(listener: () => void): void {
    this.#placedListeners.push(listener);
  }

  /** Where an actor lives. */
  nodeOf(actor: AnyAddress): NodeId {
    if (actor.kind === "node") return actor.key as NodeId;
    return this.#placement.nodeOf(actor);
  }

  /**
   * Asks an actor and waits for its answer. Refusals of the actor arrive as SvcError. `deadline_exceeded` and `actor_lost` mean
   * that the outcome is unknown: ask again by id. `mailbox_full` means that nothing was done. An actor that has moved meanwhile is
   * asked where it lives now; what was asked of it earlier may then be handled later.
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

  /** Sends at most once, without an answer; counted in `dropped` when it cannot be sent. */
  tell<K extends ActorKind, T extends MessageType<K>>(to: Address<K>, type: T, body: Body<K, T>): void {
    const link = this.#linkTo(this.nodeOf(to));
    if (link?.writable) link.tell(to.kind, to.key, type, body);
    else this.dropped.tell++;
  }

  /** Answers a delivery. */
  reply(to: Delivery, value: unknown): void {
    if (to.from !== null) this.#linkTo(to.from)?.reply(to.correlation, value);
  }

  /** Answers a delivery with a refusal; one of a tell can only be counted. */
  refuse(to: Delivery, error: SvcError): void {
    if (to.from !== null) this.#linkTo(to.from)?.refuse(to.correlation, error.toWire());
    else this.dropped.tell++;
  }

  /** Answers a delivery for an actor that lives elsewhere: it is asked there. A tell can only be counted. */
  moved(delivery: Delivery, to: NodeId): void {
    if (delivery.from !== null) this.#linkTo(delivery.from)?.moved(delivery.correlation, to);
    else this.dropped.tell++;
  }

  /** Opens the receiving end of a channel; it closes with its last text, or with closeChannel. */
  openChannel(onText: (text: string, last: boolean) => void): ChannelRef {
    return { node: this.node, id: this.#channels.add(onText) };
  }

  closeChannel(ref: ChannelRef): void {
    this.#channels.take(ref.id);
  }

  /** The sending end of a channel that another node, or this one, has opened. What is sent after that node is lost is dropped. */
  channel(ref: ChannelRef): Channel {
    // Kept: the link to a replacement is another one, and nobody there knows the channel.
    return new SendingEnd(this.#linkTo(ref.node), ref.id, this.env, this.dropped);
  }

  /** Listens to what an actor publishes. One handler for each address on a node. */
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

  /** Whether anybody listens: what nobody hears need not be encoded. */
  hasSubscribers(topic: string): boolean {
    return this.#subscribers.of(topic) !== undefined;
  }

  /** Sends text to every node that listens to the topic of an address; see `topicOf`. */
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
