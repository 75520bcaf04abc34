import { decodeBatch, encodeBatch } from "./codec.ts";
import type { Env, Timer } from "./env.ts";
import { type Batch, protocolVersion, shiftDeadlines, speaksWith, UnknownProtocol } from "./envelope.ts";
import { type NodeId, splitNodeId } from "./protocol/node-id.ts";
import type { Transport } from "./transport.ts";

// Connections of one node to nodes of other hosts, over a carrier that may lose, repeat and delay entries. An entry
// begins with its kind, the session of its sender, the session that the sender believes the receiver has, and a number.
//
//   beat    nothing was sent for a while; the number is that of the next batch, so a lost last batch is noticed
//   hello   opens or confirms a connection; the rest is the protocol version of the sender, and batches have the lower one
//   data    one batch; the number counts the batches of the session
//   close   the receiver's session is unknown or broken
//
// A batch is accepted only with the session that the receiver has drawn at random for this connection, and with the next
// number. So an entry that was recorded earlier does nothing, and a lost one closes the connection.

const kind = { hello: 1, data: 2, close: 3, beat: 4 } as const;
const sessionBytes = 16;
const headBytes = 1 + 2 * sessionBytes + 4;
const none = Buffer.alloc(sessionBytes);

/** Bytes in transit on one connection; fewer than between threads, because the carrier holds them for all hosts. */
const creditBytes = 1024 * 1024;
/** Interval at which connections are checked. */
const beatMs = 1_000;
/** Checks after which a connection sends a beat, if nothing else was sent, and after which a silent one is lost. */
const beatChecks = 2;
const silentChecks = 8;
/** The first batch has this number, so that every long connection soon passes the end of 32 bits. */
const firstNumber = 2 ** 32 - 1_000;
/** Max time until the other side confirms a connection. */
const confirmMs = 3_000;
/** Hosts that are remembered as gone, so that a late entry of theirs opens nothing. */
const goneMax = 1_000;

/** The surroundings of the links of a node. */
export interface RemoteLinksOptions {
  readonly env: Env;
  /** The host of this node. */
  readonly host: string;
  /** The protocol version of this host. */
  readonly protocol: number;
  /** Hands an entry to the carrier. */
  readonly send: (to: NodeId, entry: Uint8Array) => void;
  /** The other side has opened a connection. An earlier one to this node is lost. */
  readonly accept: (from: NodeId, transport: Transport) => void;
  /** The connection is lost. */
  readonly lost: (node: NodeId) => void;
}

/** One connection. Batches wait until the other side has confirmed it. */
class RemoteLink {
  readonly node: NodeId;
  readonly mine: Buffer;
  theirs: Buffer | null;
  /** Version of the batches; known when the other side has said its own. */
  version = protocolVersion;
  deadline: Timer | null = null;
  /** Numbers of the next batches; they begin again after 2^32. */
  received = firstNumber;
  sent = firstNumber;
  /** Checks since the last entry in each direction. A process that stalls checks nothing, so a stall loses no connection. */
  checksSinceSent = 0;
  checksSinceReceived = 0;
  readonly #env: Env;
  readonly #send: (kind: number, link: RemoteLink, number: number, rest: Uint8Array | null) => void;
  readonly #onClose: (link: RemoteLink) => void;
  #waiting: Batch[] = [];
  #take: (batch: Batch) => void = () => {};
  #isClosed = false;

  constructor(
    env: Env,
    node: NodeId,
    theirs: Buffer | null,
    send: (kind: number, link: RemoteLink, number: number, rest: Uint8Array | null) => void,
    onClose: (link: RemoteLink) => void,
  ) {
    this.#env = env;
    this.node = node;
    this.mine = Buffer.from(env.id(), "hex");
    this.theirs = theirs;
    this.#send = send;
    this.#onClose = onClose;
  }

  post(batch: Batch): void {
    if (this.#isClosed) return;
    if (this.theirs === null) this.#waiting.push(batch);
    else this.#write(batch);
  }

  onBatch(take: (batch: Batch) => void): void {
    this.#take = take;
  }

  /** The connection as the bus uses it. Its loss is reported by `RemoteLinksOptions.lost`. */
  get transport(): Transport {
    return {
      creditBytes,
      prompt: false,
      post: (batch) => this.post(batch),
      onBatch: (take) => this.onBatch(take),
      onClosed() {},
      close: () => this.close(),
    };
  }

  close(): void {
    if (this.#isClosed) return;
    this.end();
    this.#onClose(this);
  }

  /** Ends the connection without informing anyone. */
  end(): void {
    this.#isClosed = true;
    this.#waiting = [];
    this.deadline?.cancel();
  }

  /** The other side has confirmed the connection. */
  confirmed(theirs: Buffer, version: number): void {
    this.theirs = theirs;
    this.version = version;
    this.deadline?.cancel();
    for (const batch of this.#waiting.splice(0)) this.#write(batch);
  }

  taken(encoded: Uint8Array): void {
    const { version, ack, bytes, items } = decodeBatch(encoded, this.version);
    if (version !== this.version) throw new UnknownProtocol(version, this.version);
    // A later version translates what the version of the connection says.
    this.#take({ version: protocolVersion, ack, bytes, items: shiftDeadlines(items, this.#env.monotonic()) });
  }

  #write({ ack, bytes, items }: Batch): void {
    // Clocks of hosts differ, so an ask carries the time that is left.
    const left = shiftDeadlines(items, -this.#env.monotonic());
    const encoded = encodeBatch({ version: this.version, ack, bytes, items: left });
    this.#send(kind.data, this, this.sent, encoded);
    this.sent = next(this.sent);
  }
}

/** The connections of a node to nodes of other hosts. Each is opened by the first message. */
export class RemoteLinks {
  /** Entries that were not accepted; for metrics. */
  refusedCount = 0;
  readonly #options: RemoteLinksOptions;
  readonly #links = new Map<NodeId, RemoteLink>();
  readonly #gone = new Set<string>();
  #hosts: ReadonlySet<string> = new Set();
  #isCut = false;
  #isBeating = false;

  constructor(options: RemoteLinksOptions) {
    this.#options = options;
  }

  /** True if the carrier does not work. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** Opens a connection; null to a node of this host, of a host that is not there, and while the carrier does not work. */
  dial(node: NodeId): Transport | null {
    if (this.#isCut || !this.#hosts.has(splitNodeId(node).host)) return null;
    const link = this.#newLink(node, null);
    this.#hello(link);
    link.deadline = this.#options.env.timer(confirmMs, () => this.#lose(link));
    return link.transport;
  }

  /** The hosts that are there. The connections to all others are lost. */
  setHosts(hosts: readonly string[]): void {
    const before = this.#hosts;
    this.#hosts = new Set(hosts.filter((host) => host !== this.#options.host));
    for (const host of before) {
      if (this.#hosts.has(host)) continue;
      this.#gone.add(host);
      for (const link of [...this.#links.values()]) if (splitNodeId(link.node).host === host) this.#lose(link);
    }
    for (const host of [...this.#gone].slice(0, Math.max(0, this.#gone.size - goneMax))) this.#gone.delete(host);
  }

  /** The carrier stopped or works again. A stop may have lost entries, so it ends every connection. */
  setCut(isCut: boolean): void {
    this.#isCut = isCut;
    if (isCut) for (const link of [...this.#links.values()]) this.#lose(link);
  }

  /** The carrier could not deliver an entry to this node. */
  undelivered(node: NodeId): void {
    const link = this.#links.get(node);
    if (link !== undefined) this.#lose(link);
  }

  /** Takes an entry that the carrier brings. */
  take(from: NodeId, entry: Uint8Array): void {
    if (this.#gone.has(splitNodeId(from).host) || entry.length < headBytes) {
      this.refusedCount++;
      return;
    }
    const bytes = Buffer.from(entry.buffer, entry.byteOffset, entry.byteLength);
    const theirs = bytes.subarray(1, 1 + sessionBytes);
    const mine = bytes.subarray(1 + sessionBytes, 1 + 2 * sessionBytes);
    const number = bytes.readUInt32BE(headBytes - 4);
    const rest = bytes.subarray(headBytes);
    if (bytes[0] === kind.hello) this.#onHello(from, theirs, mine, rest);
    else if (bytes[0] === kind.data) this.#onData(from, theirs, mine, number, rest);
    else if (bytes[0] === kind.beat) this.#onBeat(from, theirs, mine, number);
    else if (bytes[0] === kind.close) this.#onClose(from, mine);
    else this.refusedCount++;
  }

  #onHello(from: NodeId, theirs: Buffer, mine: Buffer, rest: Buffer): void {
    const link = this.#links.get(from);
    const isFirst = mine.equals(none);
    const { protocol } = this.#options;
    const spoken = rest.length < 2 ? null : rest.readUInt16BE(0);
    if (spoken === null || !speaksWith(protocol, spoken) || (!isFirst && !link?.mine.equals(mine))) {
      this.refusedCount++;
      this.#reject(from, theirs);
      return;
    }
    const version = Math.min(protocol, spoken);
    if (link !== undefined && (link.theirs === null || link.theirs.equals(theirs))) {
      if (link.theirs === null) link.confirmed(Buffer.from(theirs), version);
      if (isFirst) this.#hello(link);
      return;
    }
    // The other side has begun anew. A listener of the loss may have opened another connection to it already.
    if (link !== undefined) this.#forget(link, true);
    const opened = this.#links.get(from);
    if (opened !== undefined) {
      opened.confirmed(Buffer.from(theirs), version);
      this.#hello(opened);
      return;
    }
    const accepted = this.#newLink(from, Buffer.from(theirs));
    accepted.version = version;
    this.#options.accept(from, accepted.transport);
    this.#hello(accepted);
  }

  #onData(from: NodeId, theirs: Buffer, mine: Buffer, number: number, rest: Buffer): void {
    const link = this.#links.get(from);
    if (link === undefined || !link.mine.equals(mine) || !link.theirs?.equals(theirs)) {
      this.refusedCount++;
      if (link === undefined) this.#reject(from, theirs);
    } else if (number !== link.received) {
      this.refusedCount++;
      this.#lose(link);
    } else {
      link.received = next(link.received);
      link.checksSinceReceived = 0;
      try {
        link.taken(rest);
      } catch {
        // Bytes that are no batch, or operations that this version does not know.
        this.refusedCount++;
        this.#lose(link);
      }
    }
  }

  #onBeat(from: NodeId, theirs: Buffer, mine: Buffer, number: number): void {
    const link = this.#links.get(from);
    if (link === undefined || !link.mine.equals(mine) || !link.theirs?.equals(theirs)) {
      this.refusedCount++;
      if (link === undefined) this.#reject(from, theirs);
    } else if (number !== link.received) {
      this.refusedCount++;
      this.#lose(link);
    } else link.checksSinceReceived = 0;
  }

  /** Sends beats on idle connections, and gives up those on which nothing arrives. */
  #beatLater(): void {
    if (this.#isBeating) return;
    this.#isBeating = true;
    this.#options.env.timer(beatMs, () => {
      this.#isBeating = false;
      for (const link of [...this.#links.values()]) {
        if (link.theirs === null) continue;
        if (++link.checksSinceReceived > silentChecks) this.#lose(link);
        else if (++link.checksSinceSent >= beatChecks) this.#send(kind.beat, link, link.sent, null);
      }
      if (this.#links.size > 0) this.#beatLater();
    });
  }

  #onClose(from: NodeId, mine: Buffer): void {
    const link = this.#links.get(from);
    if (link?.mine.equals(mine)) this.#forget(link, true);
    else this.refusedCount++;
  }

  #newLink(node: NodeId, theirs: Buffer | null): RemoteLink {
    const link = new RemoteLink(this.#options.env, node, theirs, this.#send, (closed) => this.#closed(closed));
    this.#links.set(node, link);
    this.#beatLater();
    return link;
  }

  #hello(link: RemoteLink): void {
    const version = Buffer.alloc(2);
    version.writeUInt16BE(this.#options.protocol);
    this.#send(kind.hello, link, 0, version);
  }

  /** Tells the sender of an entry that its session is not known here. */
  #reject(to: NodeId, session: Buffer): void {
    if (!this.#isCut) this.#options.send(to, entryOf(kind.close, none, session, 0, null));
  }

  /** Closes a connection and reports the loss, unless another connection has replaced it. */
  #lose(link: RemoteLink): void {
    const isCurrent = this.#links.get(link.node) === link;
    link.end();
    this.#closed(link);
    if (isCurrent) this.#options.lost(link.node);
  }

  #closed(link: RemoteLink): void {
    if (link.theirs !== null && !this.#isCut) this.#send(kind.close, link, 0, null);
    this.#forget(link, false);
  }

  #forget(link: RemoteLink, reports: boolean): void {
    link.end();
    if (this.#links.get(link.node) === link) this.#links.delete(link.node);
    if (reports) this.#options.lost(link.node);
  }

  #send = (kindOf: number, link: RemoteLink, number: number, rest: Uint8Array | null): void => {
    link.checksSinceSent = 0;
    if (!this.#isCut) this.#options.send(link.node, entryOf(kindOf, link.mine, link.theirs ?? none, number, rest));
  };
}

/** Numbers have 32 bits in an entry. */
function next(number: number): number {
  return (number + 1) >>> 0;
}

function entryOf(kindOf: number, mine: Buffer, theirs: Buffer, number: number, rest: Uint8Array | null): Uint8Array {
  const entry = Buffer.allocUnsafe(headBytes + (rest?.length ?? 0));
  entry[0] = kindOf;
  entry.set(mine, 1);
  entry.set(theirs, 1 + sessionBytes);
  entry.writeUInt32BE(number, headBytes - 4);
  if (rest !== null) entry.set(rest, headBytes);
  return entry;
}
