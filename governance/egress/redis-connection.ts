import { lookup } from "node:dns";
import { connect as connectTcp, isIP, type NetConnectOpts, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { Redis as Client, Cluster } from "ioredis";
import type { RedisPlace } from "../settings/redis-place.ts";
import { allowsAddress } from "./address.ts";
import { judgedLookup } from "./connector.ts";
import { EgressBlocked } from "./failure.ts";

/** Max time to open a connection. */
const socketMs = 5_000;
/** Max time of a sentinel to answer. */
const sentinelMs = 3_000;
/** Max time for the server to close its side of a connection that is given up. */
const goodbyeMs = 50;

/** A client of one server, of the present master of several, or of a Redis Cluster. */
export type RedisClient = Client | Cluster;

/** How a connection behaves. */
export interface ConnectionOptions {
  /** Max wait for the reply to a command; null for none. */
  readonly answerMs: number | null;
  /** Returns the pause before another attempt, by the number of attempts; null to give up. */
  readonly pauseMs: (times: number) => number | null;
  /** Called with each failure of the connection, which may come before this function returns. */
  readonly onError: (error: Error) => void;
}

/**
 * Opens a connection to the operator's Redis. No command is sent twice, and none waits for a connection. The library is loaded on first
 * use, because most deployments have no Redis.
 */
export async function connectRedis(place: RedisPlace, options: ConnectionOptions): Promise<RedisClient> {
  const { AbstractConnector, Cluster, Redis: Connection } = await import("ioredis");
  const { username, password, db, isTls, group } = place;

  class Connector extends AbstractConnector {
    readonly #where: { readonly host: string; readonly port: number };

    constructor({ host = place.host, port = place.port }: { readonly host?: string; readonly port?: number }) {
      super(goodbyeMs);
      // In a Redis Cluster each node has its own address.
      this.#where = group?.master === null ? { host, port } : place;
    }

    async connect(): Promise<Socket> {
      const where = group?.master ? await masterOf(group.master) : this.#where;
      this.stream = openSocket(where, isTls);
      return this.stream;
    }
  }

  /** Asks the sentinels in turn for the address of the master. */
  async function masterOf(name: string): Promise<{ host: string; port: number }> {
    let cause: unknown = new Error("no sentinel answers");
    for (const server of group?.servers ?? []) {
      class ToSentinel extends AbstractConnector {
        constructor() {
          super(goodbyeMs);
        }

        async connect(): Promise<Socket> {
          const socket = openSocket(server, isTls, sentinelMs);
          // A server that accepts the connection and says nothing is never ready.
          socket.on("timeout", () => socket.destroy(new Error("a sentinel does not answer")));
          this.stream = socket;
          return socket;
        }
      }
      const sentinel = new Connection({
        ...common,
        commandTimeout: options.answerMs ?? sentinelMs,
        Connector: ToSentinel as never,
        retryStrategy: () => null,
      });
      sentinel.on("error", () => {});
      try {
        await new Promise<void>((resolve, reject) => {
          sentinel.once("ready", resolve);
          sentinel.once("end", () => reject(new Error("a sentinel cannot be reached")));
        });
        const found = (await sentinel.call("SENTINEL", "get-master-addr-by-name", name)) as [string, string] | null;
        if (found !== null) return { host: found[0], port: Number(found[1]) };
        cause = new Error("the sentinels know no master of this name");
      } catch (error) {
        cause = error;
      } finally {
        sentinel.disconnect();
      }
    }
    throw cause;
  }

  const common = {
    connectTimeout: socketMs,
    ...(options.answerMs !== null && { commandTimeout: options.answerMs }),
    // Never resend a command: a repeated push would duplicate the task.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    disableClientInfo: true,
    // Replies have the same form from every version of Redis.
    protocol: 2 as const,
  };
  const own = {
    ...common,
    Connector: Connector as never,
    ...(username !== null && { username }),
    ...(password !== null && { password }),
  };
  const client: RedisClient =
    group?.master === null
      ? new Cluster(
          group.servers.map(({ host, port }) => ({ host, port })),
          {
            redisOptions: own,
            enableOfflineQueue: false,
            // Addresses are judged and resolved when a socket is opened.
            dnsLookup: (address, callback) => callback(null, address),
            clusterRetryStrategy: (times) => options.pauseMs(times),
          },
        )
      : new Connection({ ...own, db, retryStrategy: (times) => options.pauseMs(times) });
  client.on("error", options.onError);
  return client;
}

/**
 * Opens a socket to an address that the policy `operator` allows; the certificate must match the name. The socket reports a silence of
 * `silentMs` as `timeout`.
 */
function openSocket(
  { host, port }: { readonly host: string; readonly port: number },
  isTls: boolean,
  silentMs?: number,
): Socket {
  if (isIP(host) !== 0 && !allowsAddress("operator", host)) throw new EgressBlocked();
  const where: NetConnectOpts = {
    host,
    port,
    ...(silentMs !== undefined && { timeout: silentMs }),
    lookup: judgedLookup((address) => allowsAddress("operator", address), lookup),
  };
  if (!isTls) return connectTcp(where);
  return connectTls({ ...where, ...(isIP(host) === 0 && { servername: host }) });
}

/** Returns an error without the command: ioredis attaches its arguments, which include the password. */
export function plainCause(error: unknown): Error {
  const { message, code } = error as Error & { code?: string };
  return new Error(message === "" ? (code ?? "no connection") : message);
}
