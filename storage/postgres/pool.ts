import { Client, DatabaseError, Pool, type PoolClient } from "pg";
import type { Env } from "../../bus/env.ts";
import type { PostgresConfig } from "../store/config.ts";
import type { Row } from "../store/statements.ts";
import { clientConfig, sessionSettings } from "./connection.ts";
import { PipelineError, type PipelineItem, type PreparedStatements, runPipeline } from "./pipeline.ts";
import { isStalePlan } from "./refusal.ts";

/** Idle time after which a connection beyond the pool's size is closed. */
const overflowIdleMs = 10_000;
/** Time since last use during which a connection is used without a ping. */
const trustedMs = 1_000;
/** Max time of the server for one batch before the connection is closed. */
const batchMs = 60_000;
/** Max time of a ping. */
const pingMs = 2_000;
/** SQLSTATE: the server's connections are exhausted. The pool retries, because one may become free. */
const tooManyConnections = "53300";
const connectionRetryMs = 50;

/** The connections of the process to the database, except the one that holds the process lock. */
export interface PostgresPool {
  /**
   * Runs the items as one transaction on a free connection. Throws as `runPipeline` does; also if no connection becomes
   * free or opens in time, or the server is silent for `answerMs`. Callers are served in order.
   */
  run(items: readonly PipelineItem[], answerMs?: number): Promise<(Row[] | null)[]>;
  /** Like `run`, but returns null without running anything if `mayRun` is false once there is a connection. */
  runIf(mayRun: () => boolean, items: readonly PipelineItem[], answerMs?: number): Promise<(Row[] | null)[] | null>;
  /** Uses only connections made from now on. Existing ones are closed when they are idle. */
  renew(): void;
  /** Closes every connection; none may be in use. */
  close(): Promise<void>;
}

/** State of a connection. */
interface Session {
  readonly prepared: PreparedStatements | null;
  /** The pool's generation at the time of the connection. */
  readonly generation: number;
  usedAt: number;
}

/** Opens the pool of a database. It connects on first use. */
export function openPool(config: PostgresConfig, env: Env, idleMs: number = overflowIdleMs): PostgresPool {
  const connectMs = Math.ceil(config.connectTimeoutSeconds * 1000);
  const waitMs = Math.ceil(config.poolTimeoutSeconds * 1000);
  // The process lock takes one of the allowed connections.
  const connectionsMax = Math.max(1, config.poolSize + config.maxOverflow - 1);
  const sessions = new WeakMap<Client, Session>();
  let generation = 0;

  const pool = new Pool({
    ...clientConfig(config),
    connectionTimeoutMillis: waitMs,
    max: connectionsMax,
    min: Math.min(config.poolSize, connectionsMax),
    idleTimeoutMillis: idleMs,
    // The pool passes its own options to its clients; this overrides their connect timeout.
    Client: class extends Client {
      constructor(options?: object) {
        super({ ...options, connectionTimeoutMillis: connectMs });
      }
    },
    async onConnect(made) {
      const connected = made as Client;
      // A lost connection fails the pending statement, whose caller handles the error.
      connected.on("error", () => {});
      // The pool limits only the connecting itself: a server that stops answering here would occupy the slot forever.
      if (config.preparedStatements) await withDeadline(connected, connectMs, connected.query(sessionSettings));
      sessions.set(connected, {
        prepared: config.preparedStatements ? new Map() : null,
        generation,
        usedAt: env.monotonic(),
      });
    },
  });
  // An idle connection was lost; the pool has removed it.
  pool.on("error", () => {});

  async function acquire(): Promise<PoolClient> {
    const until = env.monotonic() + waitMs;
    while (true) {
      try {
        const client = await pool.connect();
        if (isCurrent(client) && (await isAlive(client))) return client;
        client.release(true);
      } catch (error) {
        const crowded = error instanceof DatabaseError && error.code === tooManyConnections;
        if (!crowded || env.monotonic() >= until) throw error;
        await new Promise<void>((resolve) => env.timer(connectionRetryMs, resolve));
      }
    }
  }

  function isCurrent(client: PoolClient): boolean {
    return (sessions.get(client) as Session).generation === generation;
  }

  async function isAlive(client: PoolClient): Promise<boolean> {
    const { usedAt } = sessions.get(client) as Session;
    if (!config.prePing || env.monotonic() - usedAt < trustedMs) return true;
    try {
      await withDeadline(client, Math.min(connectMs, pingMs), client.query("SELECT 1"));
      return true;
    } catch {
      return false;
    }
  }

  /** Destroys the connection when the server does not answer in time, which fails the pending statement. */
  async function withDeadline<T>(client: Client, ms: number, work: Promise<T>): Promise<T> {
    const deadline = env.timer(ms, () =>
      client.connection.stream.destroy(new Error("the server did not answer in time")),
    );
    try {
      return await work;
    } finally {
      deadline.cancel();
    }
  }

  async function runOn(
    client: PoolClient,
    items: readonly PipelineItem[],
    answerMs: number,
  ): Promise<(Row[] | null)[]> {
    const session = sessions.get(client) as Session;
    let broken = false;
    try {
      return await withDeadline(client, answerMs, runPipeline(client, items, session.prepared));
    } catch (error) {
      broken = isBroken(error);
      throw error;
    } finally {
      session.usedAt = env.monotonic();
      client.release(broken || !isCurrent(client));
    }
  }

  return {
    run: async (items, answerMs = batchMs) => runOn(await acquire(), items, answerMs),
    async runIf(mayRun, items, answerMs = batchMs) {
      const client = await acquire();
      if (mayRun()) return runOn(client, items, answerMs);
      client.release(!isCurrent(client));
      return null;
    },
    renew() {
      generation++;
    },
    close: () => pool.end(),
  };
}

/** True if the connection cannot be used for another batch after this failure. */
function isBroken(error: unknown): boolean {
  const cause = error instanceof PipelineError ? error.cause : null;
  if (!(cause instanceof DatabaseError)) return true;
  return cause.severity === "FATAL" || cause.severity === "PANIC" || isStalePlan(cause);
}
