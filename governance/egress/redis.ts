import { lookup } from "node:dns";
import { connect as connectTcp, isIP, type NetConnectOpts, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { Redis as Client } from "ioredis";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { ownKeys } from "../../storage/tables/key-value.ts";
import { allowsAddress } from "./address.ts";
import { judgedLookup } from "./connector.ts";
import { EgressBlocked } from "./failure.ts";
import type { RedisPlace } from "./redis-place.ts";

/** How long a command waits for a connection, and then for its answer. */
const connectMs = 1_000;
const answerMs = 3_000;
const socketMs = 5_000;
/** Pauses between two tries to connect: from, doubling up to. */
const pauseMs = { first: 50, longest: 5_000 };

/** What Redis says of itself, and of no command: it did nothing, and does it another time. */
const aboutItself = /^(?:LOADING|READONLY|MASTERDOWN|MISCONF|NOREPLICAS|OOM|BUSY|TRYAGAIN|CLUSTERDOWN|NOAUTH)\b/;
/** Of that, what another connection may lead away from: behind the address there may be another server by now. */
const aboutConnection = /^(?:LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|NOAUTH)\b/;

/** What the operator is told of the connection. */
export interface RedisLog {
  info(words: string): void;
  warn(what: { readonly reason: string }, words: string): void;
}

/** A command that was not answered. `unknown`: it was sent, and may have been carried out. */
export class RedisUnavailable extends SvcError {
  readonly outcome: "not_sent" | "unknown";

  constructor(outcome: "not_sent" | "unknown", cause: unknown) {
    super("storage_unavailable", { subject: "redis" }, { cause });
    this.outcome = outcome;
  }
}

/**
 * A connection to the operator's Redis, made at the first command and again, with growing pauses, whenever it is lost. A command is
 * sent once at most, and none waits longer than a few seconds: it refuses with RedisUnavailable, also while there is no connection.
 * A Redis that cannot do anything now, as one that loads, is full or has become a replica, counts as away. What it refuses of a command
 * is thrown as it says it, without the arguments.
 */
export class Redis {
  readonly #place: RedisPlace;
  readonly #env: Env;
  readonly #log: RedisLog;
  #client: Promise<Client> | null = null;
  #isClosed = false;
  #failure: string | null = null;

  constructor(place: RedisPlace, env: Env, log: RedisLog) {
    this.#place = place;
    this.#env = env;
    this.#log = log;
  }

  /** Sends a command and gives its answer. */
  async command(name: string, ...args: readonly (string | number)[]): Promise<unknown> {
    const { client, opened } = await this.#ready();
    try {
      return await client.call(name, ...args);
    } catch (error) {
      const { name: kind, message } = error as Error;
      // Its arguments hang on it, and may be anything.
      if (kind === "ReplyError") {
        if (aboutConnection.test(message)) this.#leave(client, opened);
        if (aboutItself.test(message)) throw new RedisUnavailable("not_sent", new Error(message));
        throw new RedisRefusal(message);
      }
      // Who is silent on one command is not asked the next on the same connection: answers would come in the wrong place.
      if (client.status === "ready") client.disconnect(true);
      throw new RedisUnavailable("unknown", plainCause(error));
    }
  }

  /**
   * Tries whether it takes writes, by one that leaves nothing: there is no list of this name to be pushed to. Refuses with RedisUnavailable
   * where it is away, a replica or full.
   */
  async check(): Promise<void> {
    try {
      await this.command("LPUSHX", `${ownKeys}check`, "");
    } catch (error) {
      if (!(error instanceof RedisRefusal)) throw error;
      // An account that may push to its queues only is not told more than that there is a Redis.
      await this.command("PING");
    }
  }

  /** Ends the connection; it is not made again. */
  close(): void {
    this.#isClosed = true;
    void this.#client?.then((client) => client.disconnect());
  }

  /** The next command goes over a connection of its own; what is under way on this one is answered. */
  #leave(client: Client, opened: Promise<Client>): void {
    if (this.#client !== opened) return;
    this.#client = null;
    client.removeAllListeners("close");
    void client.quit().catch(() => client.disconnect());
  }

  async #ready(): Promise<{ client: Client; opened: Promise<Client> }> {
    if (this.#isClosed) throw new RedisUnavailable("not_sent", new Error("closed"));
    this.#client ??= this.#open();
    const opened = this.#client;
    const client = await opened;
    if (client.status === "ready") return { client, opened };
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const giveUp = () => reject(this.#unreachable());
    const deadline = this.#env.timer(connectMs, giveUp);
    client.once("ready", resolve);
    client.once("end", giveUp);
    if (client.status === "end") giveUp();
    try {
      await promise;
      return { client, opened };
    } finally {
      deadline.cancel();
      client.off("ready", resolve);
      client.off("end", giveUp);
    }
  }

  #unreachable(): RedisUnavailable {
    return new RedisUnavailable("not_sent", new Error(this.#failure ?? "no connection in time"));
  }

  async #open(): Promise<Client> {
    // Loaded where it is used: most deployments have no Redis.
    const { AbstractConnector, Redis: Connection } = await import("ioredis");
    const place = this.#place;
    class Connector extends AbstractConnector {
      async connect(): Promise<Socket> {
        this.stream = openSocket(place);
        return this.stream;
      }
    }
    const { username, password, db } = place;
    const client = new Connection({
      Connector: Connector as never,
      ...(username !== null && { username }),
      ...(password !== null && { password }),
      db,
      connectTimeout: socketMs,
      commandTimeout: answerMs,
      // Each command goes out once or not at all: what it pushes must not be there twice.
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      disableClientInfo: true,
      retryStrategy: (times) => Math.min(pauseMs.first * 2 ** Math.min(times - 1, 10), pauseMs.longest),
    });
    client.on("ready", () => {
      if (this.#failure !== null) this.#log.info("Redis answers again");
      this.#failure = null;
    });
    client.on("error", (error: Error) => this.#failed(plainCause(error).message));
    client.on("close", () => this.#failed(this.#failure ?? "the connection was closed"));
    return client;
  }

  /** Told once for each outage. */
  #failed(reason: string): void {
    if (this.#isClosed) return;
    if (this.#failure === null) this.#log.warn({ reason }, "Redis cannot be reached");
    this.#failure = reason;
  }
}

/** What Redis says to a command that it does not carry out. */
export class RedisRefusal extends Error {}

/** A socket to an address that an operator may name; the certificate is checked for the name. */
function openSocket({ host, port, isTls }: RedisPlace): Socket {
  if (isIP(host) !== 0 && !allowsAddress("operator", host)) throw new EgressBlocked();
  const where: NetConnectOpts = { host, port, lookup: judgedLookup("operator", lookup) };
  if (!isTls) return connectTcp(where);
  return connectTls({ ...where, ...(isIP(host) === 0 && { servername: host }) });
}

/** Errors of ioredis bear the command with its arguments, among them the password. */
function plainCause(error: unknown): Error {
  const { message, code } = error as Error & { code?: string };
  return new Error(message === "" ? (code ?? "no connection") : message);
}
