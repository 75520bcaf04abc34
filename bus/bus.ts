import { type Address, type AnyAddress, namedNode, placedWith, topicOf } from "./address.ts";
import { type PendingAsk, PendingAsks } from "./asks.ts";
import type { Env } from "./env.ts";
import { protocolVersion, type Receiver, UnknownProtocol, unpack } from "./envelope.ts";
import { SvcError, type WireError } from "./errors.ts";
import { Link } from "./link.ts";
import { localTransport } from "./local.ts";
import { type ActorNodes, Placement } from "./placement.ts";
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

/** A topic that this node subscribes to, and the nodes that know of it. */
interface Subscription {
  readonly address: AnyAddress;
  /** The handler of `subscribe`; null for none. */
  onText: ((text: string) => void) | null;
  /** The listeners of `overhear`. */
  readonly others: Set<(text: string) => void>;
  readonly nodes: NodeId[];
}

interface Peer {
  readonly link: Link;
  readonly transport: Transport;
}

const defaultDeadlineMs = 10_000;
/** Max actors that are remembered to live elsewhere than placed. */
const strayedMax = 10_000;
/** Number of ids per incarnation for asks and channels; 2^53 allows 8,192 incarnations. */
const incarnationIds = 2 ** 40;

/** Options of a node's end of the bus. */
export interface BusOptions {
  readonly env: Env;
  readonly node: NodeId;
  /** Number of earlier starts of this node. It prevents that messages to an earlier incarnation reach this one. */
  readonly incarnation: number;
  /** The nodes that hold actors, in the same order on every node. A list has nodes with all duties. */
  readonly actorNodes: readonly NodeId[] | ActorNodes;
  /** Handles messages for actors of this node. */
  readonly deliver: (delivery: Delivery) => void;
  /** Opens a connection to a node of another host, null if it cannot; absent if there are no other hosts. */
  readonly dial?: (node: NodeId) => Transport | null;
  /** Returns the refusal of an ask to a node without a connection; by default actor_lost. */
  readonly refusal?: (node: NodeId) => SvcError;
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
  readonly #subscriptions = new SlotMap<Subscription>();
  readonly #dial: BusOptions["dial"];
  readonly #refusal: (node: NodeId) => SvcError;
  /** Nodes of actors that stay where they were until their run has ended, by the address that decides their placement. */
  readonly #strayed = new Map<string, NodeId>();
  /** The actors that work on this node although they are placed on others: how many for each place. */
  readonly #staying = new Map<string, number>();
  readonly #subscribers = new Subscribers();
  /** Topics that this node subscribes to at every node with actors. */
  readonly #everywhere = new Map<string, (text: string) => void>();
  readonly #lostListeners: LostListener[] = [];
  readonly #placedListeners: (() => void)[] = [];

  constructor(options: BusOptions) {
    this.env = options.env;
    this.node = options.node;
    this.#placement = new Placement(options.actorNodes);
    this.#deliver = options.deliver;
    this.#dial = options.dial;
    this.#refusal = options.refusal ?? (() => new SvcError("actor_lost"));
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
    if (this.#everywhere.size > 0 && this.#placement.nodes.includes(node))
      for (const topic of this.#everywhere.keys()) link.subscribe(topic);
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
    for (const [id, to] of this.#strayed) if (to === node) this.#strayed.delete(id);
    for (const [, { nodes }] of this.#subscriptions) if (nodes.includes(node)) nodes.splice(nodes.indexOf(node), 1);
  }

  onLost(listener: LostListener): void {
    this.#lostListeners.push(listener);
  }

  /** True if several hosts hold actors. A draining host counts. */
  get spansHosts(): boolean {
    return this.#placement.spansHosts;
  }

  /** The nodes that hold actors, those of draining hosts included. */
  get actorNodes(): readonly NodeId[] {
    return this.#placement.nodes;
  }

  /**
   * Places actors on other nodes from now on. Nodes learn of this at different times; until then asks are redirected.
   */
  placeOver(actorNodes: readonly NodeId[] | ActorNodes): void {
    this.#placement = new Placement(actorNodes);
    // A host may be gone without a connection to it that was lost: then no call of `lost` forgets its actors.
    for (const [id, node] of this.#strayed) if (this.#isGone(node)) this.#strayed.delete(id);
    for (const listener of this.#placedListeners) listener();
    for (const [, subscription] of this.#subscriptions) this.#subscribeAtHomeToo(subscription);
    for (const topic of this.#everywhere.keys())
      for (const node of this.#placement.nodes) this.#linkTo(node)?.subscribe(topic);
  }

  /** True if a node holds no actors and has no connection to this one. */
  #isGone(node: NodeId): boolean {
    return !this.#placement.nodes.includes(node) && !this.#peers.has(node);
  }

  /** Calls `listener` after each change of the placement. */
  onPlaced(listener: () => void): void {
    this.#placedListeners.push(listener);
  }

  /** Returns the node where an actor is placed. */
  homeOf(actor: AnyAddress): NodeId {
    return namedNode(actor) ?? this.#placement.nodeOf(actor);
  }

  /** Returns the node where an actor lives, as far as this node knows: its home, or where it stays after a change. */
  nodeOf(actor: AnyAddress): NodeId {
    if (this.#staying.size > 0 && this.#staying.has(placeId(actor))) return this.node;
    const strayed = this.#strayed.size === 0 ? undefined : this.#strayed.get(placeId(actor));
    return strayed ?? this.homeOf(actor);
  }

  /** Sends messages for an actor to this node, where it works, instead of its home, until `left`. */
  stays(actor: AnyAddress): void {
    const id = placeId(actor);
    this.#staying.set(id, (this.#staying.get(id) ?? 0) + 1);
  }

  /** Ends `stays`. */
  left(actor: AnyAddress): void {
    const id = placeId(actor);
    const count = (this.#staying.get(id) ?? 0) - 1;
    if (count > 0) this.#staying.set(id, count);
    else this.#staying.delete(id);
  }

  /** Returns the node on which a durable run works; null if no host is a worker. */
  workNodeOf(run: AnyAddress): NodeId | null {
    return this.#placement.workNodeOf(run);
  }

  /** From now on an actor, and all that are placed with it, live on another node than their home, as far as this node knows. */
  livesAt(actor: AnyAddress, node: NodeId): void {
    const id = placeId(actor);
    // A late message may name a host that is gone, where nothing would reach the actor.
    if (node === this.homeOf(actor) || this.#isGone(node)) this.#strayed.delete(id);
    else {
      // The home of an actor knows where it is, so forgetting costs one redirect.
      if (this.#strayed.size >= strayedMax) this.#strayed.clear();
      this.#strayed.set(id, node);
    }
    const subscription = this.#subscriptions.get(id);
    if (subscription !== undefined) this.#subscribeAt(subscription, node);
  }

  /**
   * Informs the subscribers of a topic that its actor lives on another node from now on. Returns them: that node
   * publishes to them at once.
   */
  leadTo(topic: string, node: NodeId): readonly NodeId[] {
    const nodes = this.#subscribers.of(topic) ?? [];
    for (const subscriber of nodes) this.#linkTo(subscriber)?.lives(topic, node);
    return nodes;
  }

  /** Adds subscribers of a topic, whose actor lives on this node for now. */
  addSubscribers(topic: string, nodes: readonly NodeId[]): void {
    for (const node of nodes) this.#subscribers.add(topic, node);
  }

  /** Removes all subscribers of a topic, whose actor has left this node. */
  dropSubscribers(topic: string): void {
    this.#subscribers.removeTopic(topic);
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
    const others = this.#subscriptions.get(topicOf(to))?.others ?? new Set();
    const subscription: Subscription = { address: to, onText, others, nodes: [] };
    this.#subscriptions.set(topicOf(to), subscription);
    this.#subscribeAtHomeToo(subscription);
  }

  unsubscribe(to: Address): void {
    const topic = topicOf(to);
    const subscription = this.#subscriptions.get(topic);
    if (subscription !== undefined) subscription.onText = null;
    this.#leaveTopic(topic);
  }

  /**
   * Listens to an actor's topic in addition to the handler of the node. The returned function ends it. After the loss of the actor's
   * node, only a new call receives texts of its replacement.
   */
  overhear(to: Address, onText: (text: string) => void): () => void {
    const topic = topicOf(to);
    const earlier = this.#subscriptions.get(topic);
    const subscription = earlier ?? { address: to, onText: null, others: new Set(), nodes: [] };
    subscription.others.add(onText);
    if (earlier === undefined) this.#subscriptions.set(topic, subscription);
    this.#subscribeAtHomeToo(subscription);
    return () => {
      this.#subscriptions.get(topic)?.others.delete(onText);
      this.#leaveTopic(topic);
    };
  }

  /** Unsubscribes from a topic without handler and listeners. */
  #leaveTopic(topic: string): void {
    const subscription = this.#subscriptions.get(topic);
    if (subscription === undefined || subscription.onText !== null || subscription.others.size > 0) return;
    this.#subscriptions.take(topic);
    for (const node of subscription.nodes) this.#peers.get(node)?.link.unsubscribe(topic);
  }

  /** Subscribes to a topic on which the actors of any node publish. Texts of a node that is lost are lost. */
  subscribeEverywhere(topic: string, onText: (text: string) => void): void {
    this.#everywhere.set(topic, onText);
    for (const node of this.#placement.nodes) this.#linkTo(node)?.subscribe(topic);
  }

  unsubscribeEverywhere(topic: string): void {
    if (this.#everywhere.delete(topic))
      for (const node of this.#placement.nodes) this.#peers.get(node)?.link.unsubscribe(topic);
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
      const ask = this.#asks.get(correlation);
      if (ask !== undefined) this.livesAt(ask, to);
      if (!this.#asks.moved(correlation, to)) this.dropped.late_reply++;
    },
    onFrame: (channel, text, last) => {
      const onText = last ? this.#channels.take(channel) : this.#channels.get(channel);
      if (onText) onText(text, last);
      else this.dropped.frame++;
    },
    onTopic: (topic, text) => {
      const subscription = this.#subscriptions.get(topic);
      if (subscription === undefined) return this.#everywhere.get(topic)?.(text);
      subscription.onText?.(text);
      for (const listener of [...subscription.others]) listener(text);
    },
    onSubscribe: (from, topic) => this.#subscribers.add(topic, from),
    onUnsubscribe: (from, topic) => this.#subscribers.remove(topic, from),
    onLives: (topic, node) => {
      const subscription = this.#subscriptions.get(topic);
      if (subscription !== undefined) this.livesAt(subscription.address, node);
    },
  };

  #send(correlation: number, { node, kind, key, type, body, deadline, bytes }: PendingAsk): void {
    const link = this.#linkTo(node);
    if (!link) throw this.#refusal(node);
    if (!link.writable) throw new SvcError("mailbox_full");
    link.ask(correlation, kind, key, type, body, deadline, bytes);
  }

  /** An actor away from its home returns there without notice. */
  #subscribeAtHomeToo(subscription: Subscription): void {
    const node = this.nodeOf(subscription.address);
    this.#subscribeAt(subscription, node);
    const home = this.homeOf(subscription.address);
    if (home !== node) this.#subscribeAt(subscription, home);
  }

  #subscribeAt({ address, nodes }: Subscription, node: NodeId): void {
    if (nodes.includes(node) && this.#peers.has(node)) return;
    const link = this.#linkTo(node);
    if (link === undefined) return;
    if (!nodes.includes(node)) nodes.push(node);
    link.subscribe(topicOf(address as Address));
  }

  #linkTo(node: NodeId): Link | undefined {
    const peer = this.#peers.get(node);
    if (peer !== undefined || this.#dial === undefined) return peer?.link;
    const transport = this.#dial(node);
    if (transport === null) return undefined;
    this.connect(node, transport);
    return this.#peers.get(node)?.link;
  }
}

function placeId(actor: AnyAddress): string {
  const { kind, key } = placedWith(actor);
  return `${kind}/${key}`;
}
