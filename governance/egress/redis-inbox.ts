import { createHmac, timingSafeEqual } from "node:crypto";
import type { Env, Timer } from "../../bus/env.ts";
import type { RedisPlace } from "../settings/redis-place.ts";
import { connectRedis, plainCause, type RedisClient } from "./redis-connection.ts";

// Carries entries between hosts over Redis. Each host has one inbox, a stream that only it reads. Senders append to it. The reader trims
// its stream; a bound on the number of entries is the safety net. An inbox outlives its host by a minute.

/** Max entries of an inbox, and of one read. */
const entriesMax = 16_384;
const readMax = 512;
/** A read waits this long for an entry. A reader that hears nothing for the second time has lost its connection. */
const blockMs = 1_000;
const silentMs = 3_000;
const answerMs = 3_000;
const inboxSeconds = 60;
const trimMs = 100;
const pauseMs = { first: 100, longest: 2_000 };
/** Fields of an entry, in this order. */
const fields = 4;

/** The deployment cannot use this Redis; the message says why. */
export class UnfitRedis extends Error {
  override readonly name = "UnfitRedis";
}

/** Options of a host's inbox. */
export interface RedisInboxOptions {
  readonly place: RedisPlace;
  readonly env: Env;
  readonly log: { info(words: string): void; warn(what: object, words: string): void };
  /** The beginning of all keys of the deployment. */
  readonly prefix: string;
  /** The first signs, all verify. */
  readonly keys: readonly string[];
  /** The host whose inbox is read. */
  readonly host: string;
  /** The id of the deployment in the database. */
  readonly deployment: () => Promise<string>;
  /** Takes an entry of another host. */
  readonly take: (from: string, to: string, entry: Uint8Array) => void;
  /** An entry was dropped, because it is not signed with a key of the deployment. */
  readonly onForged: () => void;
  /** An entry may not have arrived at this node. */
  readonly undelivered: (to: string) => void;
  /** Redis does not work (true) or works again. While it does not, nothing is sent. */
  readonly onCut: (isCut: boolean) => void;
  /** The deployment must not use this Redis. */
  readonly onUnfit: (error: UnfitRedis) => void;
}

/** The inbox of this host, and the way to those of others. */
export class RedisInbox {
  readonly #options: RedisInboxOptions;
  readonly #key: string;
  #sender: RedisClient | null = null;
  #reader: RedisClient | null = null;
  #lastId = "0-0";
  #trimmedId = "0-0";
  #isClosed = false;
  #failure: string | null = null;
  #renewal: Timer | null = null;

  constructor(options: RedisInboxOptions) {
    this.#options = options;
    this.#key = this.#inboxOf(options.host);
  }

  /** Connects, and keeps connecting. Resolves after the first attempt. Rejects with UnfitRedis. */
  async start(): Promise<void> {
    const first = await this.#attempt();
    if (first instanceof UnfitRedis) throw first;
    void this.#keep(first === null);
  }

  /** Appends an entry to the inbox of another host. */
  post(host: string, from: string, to: string, entry: Uint8Array): void {
    const sender = this.#sender;
    if (sender === null) return;
    const [key = ""] = this.#options.keys;
    const args = [this.#inboxOf(host), "NOMKSTREAM", "MAXLEN", "~", entriesMax, "*"];
    const bytes = Buffer.from(entry.buffer, entry.byteOffset, entry.byteLength);
    sender.call("XADD", ...args, "f", from, "t", to, "e", bytes, "m", mac(key, from, to, bytes)).then(
      // Null: the inbox is not there, so its host is gone or has just lost it.
      (id) => id === null && this.#options.undelivered(to),
      (error: unknown) => {
        this.#options.undelivered(to);
        // A reply of Redis concerns this entry alone.
        if ((error as Error).name !== "ReplyError") this.#break(sender, error);
      },
    );
  }

  /** Deletes the inbox of a host that is gone. */
  remove(host: string): void {
    this.#sender?.call("DEL", this.#inboxOf(host)).catch(() => {});
  }

  close(): void {
    this.#isClosed = true;
    this.#renewal?.cancel();
    this.#sender?.call("DEL", this.#key).catch(() => {});
    this.#disconnect();
  }

  #inboxOf(host: string): string {
    // The braces make the host's id decide the slot in a Redis Cluster.
    return `${this.#options.prefix}:inbox:{${host}}`;
  }

  async #keep(isConnected: boolean): Promise<void> {
    let connected = isConnected;
    for (let pause = pauseMs.first; !this.#isClosed; ) {
      if (connected) {
        pause = pauseMs.first;
        await this.#readOn();
        if (this.#isClosed) return;
      }
      await new Promise<void>((resolve) => this.#options.env.timer(pause, resolve));
      pause = Math.min(pause * 2, pauseMs.longest);
      const outcome = this.#isClosed ? null : await this.#attempt();
      if (outcome instanceof UnfitRedis) this.#options.onUnfit(outcome);
      connected = outcome === null && !this.#isClosed;
    }
  }

  /** Opens both connections. Returns the reason if that fails. */
  async #attempt(): Promise<Error | null> {
    try {
      const sender = await this.#open(answerMs);
      this.#sender = sender;
      this.#reader = await this.#open(null);
      await this.#check(sender);
      await this.#renew(sender);
      this.#renewLater(sender);
      if (this.#failure !== null) this.#options.log.info("Redis answers again: other hosts can be reached");
      this.#failure = null;
      this.#options.onCut(false);
      return null;
    } catch (error) {
      this.#disconnect();
      this.#failed(plainCause(error).message);
      return error as Error;
    }
  }

  async #open(answerMs: number | null): Promise<RedisClient> {
    let cause: Error | null = null;
    const client = await connectRedis(this.#options.place, {
      answerMs,
      pauseMs: () => null,
      onError: (error) => {
        cause = plainCause(error);
      },
    });
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    // The connection may have ended already.
    if (client.status === "ready") resolve();
    if (client.status === "end") reject(cause ?? new Error("the connection was closed"));
    client.once("ready", resolve);
    client.once("end", () => {
      reject(cause ?? new Error("the connection was closed"));
      this.#break(client, cause ?? new Error("the connection was closed"));
    });
    await promise;
    return client;
  }

  /** Refuses a Redis that could drop entries, or that another deployment uses under the same prefix. */
  async #check(sender: RedisClient): Promise<void> {
    const info = String(await sender.call("INFO"));
    const role = /^role:(\w+)/m.exec(info)?.[1];
    const policy = /^maxmemory_policy:([\w-]+)/m.exec(info)?.[1];
    if (role !== undefined && role !== "master")
      throw new UnfitRedis("SVC_REDIS_URL leads to a replica; hosts need the Redis that takes writes");
    if (policy !== undefined && policy !== "noeviction")
      throw new UnfitRedis(
        `the Redis of SVC_REDIS_URL may drop keys: its maxmemory-policy is ${policy} and must be noeviction`,
      );
    const key = `${this.#options.prefix}:deployment`;
    const id = await this.#options.deployment();
    await sender.call("SET", key, id, "NX");
    if (String(await sender.call("GET", key)) !== id)
      throw new UnfitRedis(
        "another deployment uses this Redis with the same SVC_REDIS_PREFIX; set another prefix for one of them",
      );
  }

  /** Reads until the connection is lost. */
  async #readOn(): Promise<void> {
    const { env } = this.#options;
    for (;;) {
      const reader = this.#reader;
      if (reader === null) return;
      const deadline = env.timer(blockMs + silentMs, () => this.#break(reader, new Error("Redis does not answer")));
      try {
        const args = ["COUNT", readMax, "BLOCK", blockMs, "STREAMS", this.#key, this.#lastId];
        const reply = (await reader.callBuffer("XREAD", ...args)) as [Buffer, [Buffer, Buffer[]][]][] | null;
        for (const [, entries] of reply ?? []) for (const [id, values] of entries) this.#received(String(id), values);
      } catch (error) {
        this.#break(reader, error);
        return;
      } finally {
        deadline.cancel();
      }
    }
  }

  #received(id: string, values: readonly Buffer[]): void {
    this.#lastId = id;
    const [from, to, entry, signature] = Array.from({ length: fields }, (_, at) => values[2 * at + 1]);
    // The entry that creates the inbox.
    if (from === undefined || to === undefined || entry === undefined || signature === undefined) return;
    const isSigned = this.#options.keys.some((key) => isMac(signature, mac(key, String(from), String(to), entry)));
    if (isSigned) this.#options.take(String(from), String(to), entry);
    else this.#options.onForged();
  }

  /** Keeps the inbox, and makes it again if Redis has lost it. Trims what was read. */
  async #renew(sender: RedisClient): Promise<void> {
    if (Number(await sender.call("EXPIRE", this.#key, inboxSeconds)) === 0) {
      const id = String(await sender.call("XADD", this.#key, "*", "made", "1"));
      await sender.call("EXPIRE", this.#key, inboxSeconds);
      // A Redis that lost its memory may have a clock that is behind.
      if (this.#lastId !== "0-0") this.#lastId = before(id);
    }
  }

  #renewLater(sender: RedisClient): void {
    let beats = 0;
    const beat = (): void => {
      this.#renewal = this.#options.env.timer(trimMs, () => {
        if (this.#sender !== sender || this.#isClosed) return;
        const isDue = ++beats % (1_000 / trimMs) === 0;
        const done = isDue ? this.#renew(sender) : Promise.resolve();
        void done.catch((error: unknown) => this.#break(sender, error));
        if (this.#trimmedId !== this.#lastId) {
          this.#trimmedId = this.#lastId;
          void sender.call("XTRIM", this.#key, "MINID", this.#lastId).catch(() => {});
        }
        beat();
      });
    };
    beat();
  }

  #break(client: RedisClient, cause: unknown): void {
    if (client !== this.#sender && client !== this.#reader) return;
    this.#disconnect();
    this.#failed(plainCause(cause).message);
  }

  #disconnect(): void {
    const clients = [this.#sender, this.#reader];
    this.#sender = null;
    this.#reader = null;
    for (const client of clients) client?.disconnect();
  }

  /** Logged once per outage. */
  #failed(reason: string): void {
    if (this.#isClosed) return;
    if (this.#failure === null)
      this.#options.log.warn({ reason }, "Redis cannot be used: actors of other hosts cannot be reached");
    this.#failure = reason;
    this.#options.onCut(true);
  }
}

function mac(key: string, from: string, to: string, entry: Uint8Array): Buffer {
  return createHmac("sha256", key).update(`${from}\n${to}\n`).update(entry).digest();
}

function isMac(given: Buffer, made: Buffer): boolean {
  return given.length === made.length && timingSafeEqual(given, made);
}

/** Returns an id of a stream that lies before another. */
function before(id: string): string {
  const [ms = "0"] = id.split("-");
  return `${Math.max(0, Number(ms) - 1)}-0`;
}
