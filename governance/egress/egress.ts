import { lookup } from "node:dns";
import { type Env, systemEnv, type Timer } from "../../bus/env.ts";
import { SlotSet } from "../../bus/slot-map.ts";
import type { EgressPolicy } from "./address.ts";
import { Connection, type ResponseHandler } from "./connection.ts";
import { Connector, type Resolver } from "./connector.ts";
import { EgressError } from "./failure.ts";
import { policyJudge } from "./judge.ts";
import { type EgressRequest, requestText } from "./request-text.ts";
import { type EgressRoute, plainRoute } from "./route.ts";
import type { Target } from "./target.ts";

/** Interval of the search for expired idle connections. */
const sweepMs = 5_000;

/**
 * Opens all outgoing HTTP/1.1 connections of this process. Each policy has its own Egress, so that policies never share a
 * connection. Redirects are not followed. Each request uses a connection exclusively, an idle one or a new one.
 */
export class Egress {
  readonly #env: Env;
  readonly #connector: Connector;
  readonly #open = new SlotSet<Connection>();
  /** Idle connections by origin, most recently used last. */
  readonly #free = new Map<string, Connection[]>();
  #sweeping: Timer | null = null;
  #isClosed = false;

  constructor(
    policy: EgressPolicy,
    resolve: Resolver = lookup,
    env: Env = systemEnv(),
    route: EgressRoute = plainRoute,
  ) {
    this.#env = env;
    this.#connector = new Connector(policyJudge(policy), resolve, route);
  }

  /** Sends a request. Never throws: a request that cannot be sent fails through the handler. */
  dispatch(target: Target, request: EgressRequest, handler: ResponseHandler): void {
    try {
      if (this.#isClosed) throw new EgressError("lost", "the egress is closed");
      const text = requestText(target, request);
      const connection = this.#takeFree(target.origin) ?? this.#connect(target);
      connection.send(text, request.silenceMs, handler);
    } catch (error) {
      this.#env.soon(() => handler.onResponseError(error as Error));
    }
  }

  /** Closes every connection and fails the requests in progress. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#sweeping?.cancel();
    for (const connection of this.#open) connection.destroy();
  }

  #connect(target: Target): Connection {
    const connection = new Connection(target, this.#connector, this.#env, this);
    this.#open.add(connection);
    return connection;
  }

  #takeFree(origin: string): Connection | undefined {
    const free = this.#free.get(origin);
    const connection = free?.pop();
    if (free?.length === 0) this.#free.delete(origin);
    if (connection === undefined || connection.freeUntil > this.#env.monotonic()) return connection;
    connection.destroy();
    return this.#takeFree(origin);
  }

  /** See `ConnectionOwner`. */
  free(connection: Connection): void {
    const free = this.#free.get(connection.origin);
    if (free) free.push(connection);
    else this.#free.set(connection.origin, [connection]);
    this.#sweeping ??= this.#env.timer(sweepMs, this.#sweep);
  }

  /** See `ConnectionOwner`. */
  closed(connection: Connection): void {
    this.#open.delete(connection);
    const free = this.#free.get(connection.origin);
    const at = free?.indexOf(connection) ?? -1;
    if (at >= 0) free?.splice(at, 1);
    if (free?.length === 0) this.#free.delete(connection.origin);
  }

  #sweep = (): void => {
    this.#sweeping = null;
    const now = this.#env.monotonic();
    for (const free of [...this.#free.values()])
      for (const connection of [...free]) if (connection.freeUntil <= now) connection.destroy();
    if (this.#free.size > 0) this.#sweeping = this.#env.timer(sweepMs, this.#sweep);
  };
}
