import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { ownKeys } from "../../storage/tables/key-value.ts";
import type { RedisPlace } from "../settings/redis-place.ts";
import { type RedisClient as Client, connectRedis, plainCause } from "./redis-connection.ts";

/** Max wait of a command for a connection, then for its reply. */
const connectMs = 1_000;
const answerMs = 3_000;
/** Pause between two connection attempts: the first, doubling up to the longest. */
const pauseMs = { first: 50, longest: 5_000 };

/** Errors about the state of Redis rather than the command: the command had no effect and may succeed later. */
const aboutItself = /^(?:LOADING|READONLY|MASTERDOWN|MISCONF|NOREPLICAS|OOM|BUSY|TRYAGAIN|CLUSTERDOWN|NOAUTH)\b/;
/** Those errors that a new connection may avoid, because the address may now lead to another server. */
const aboutConnection = /^(?:LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|NOAUTH)\b/;

/** Logs the state of the connection for the operator. */
export interface RedisLog {
  info(words: string): void;
  warn(what: { readonly reason: string }, words: string): void;
}

/** A command without a reply. `unknown`: it was sent and may have been executed. */
export class RedisUnavailable extends SvcError {
  readonly outcome: "not_sent" | "unknown";

  constructor(outcome: "not_sent" | "unknown", cause: unknown) {
    super("storage_unavailable", { subject: "redis" }, { cause });
    this.outcome = outcome;
  }
}

/**
 * A connection to the operator's Redis, opened by the first command and reopened with growing pauses. Each command is sent at
 * most once and fails with RedisUnavailable after a few seconds. A Redis that is loading, full or read-only counts as
 * unavailable. Other errors of Redis are thrown with its text but without the arguments.
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

  /** Sends a command and returns its reply. */
  async command(name: string, ...args: readonly (string | number)[]): Promise<unknown> {
    const { client, opened } = await this.#ready();
    try {
      return await client.call(name, ...args);
    } catch (error) {
      const { name: kind, message } = error as Error;
      // Drop the original error: ioredis attaches the arguments, which may be secret.
      if (kind === "ReplyError") {
        if (aboutConnection.test(message)) this.#leave(client, opened);
        if (aboutItself.test(message)) throw new RedisUnavailable("not_sent", new Error(message));
        throw new RedisRefusal(message);
      }
      // After a timeout, close the connection: a late reply would be matched to the next command.
      if (client.status === "ready") client.disconnect(true);
      throw new RedisUnavailable("unknown", plainCause(error));
    }
  }

  /**
   * Checks that Redis accepts writes, with a write that changes nothing: LPUSHX to a list that does not exist. Refuses with
   * RedisUnavailable if Redis is unreachable, read-only or full.
   */
  async check(): Promise<void> {
    try {
      await this.command("LPUSHX", `${ownKeys}check`, "");
    } catch (error) {
      if (!(error instanceof RedisRefusal)) throw error;
      // An account that is limited to its queues may not run LPUSHX here; PING still shows that Redis replies.
      await this.command("PING");
    }
  }

  /** Closes the connection for good. */
  close(): void {
    this.#isClosed = true;
    void this.#client?.then((client) => client.disconnect());
  }

  /** Makes the next command open a new connection; commands in progress on this one still get their replies. */
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
    const client = await connectRedis(this.#place, {
      answerMs,
      pauseMs: (times) => Math.min(pauseMs.first * 2 ** Math.min(times - 1, 10), pauseMs.longest),
      onError: (error) => this.#failed(plainCause(error).message),
    });
    client.on("ready", () => {
      if (this.#failure !== null) this.#log.info("Redis answers again");
      this.#failure = null;
    });
    client.on("close", () => this.#failed(this.#failure ?? "the connection was closed"));
    return client;
  }

  /** Logged once per outage. */
  #failed(reason: string): void {
    if (this.#isClosed) return;
    if (this.#failure === null) this.#log.warn({ reason }, "Redis cannot be reached");
    this.#failure = reason;
  }
}

/** An error reply of Redis to a command. */
export class RedisRefusal extends Error {}
