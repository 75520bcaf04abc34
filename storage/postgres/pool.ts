import { Client, DatabaseError, Pool, type PoolClient } from "pg";
import type { Env } from "../../bus/env.ts";
import type { PostgresConfig } from "../store/config.ts";
import type { Row } from "../store/statements.ts";
import { clientConfig, sessionSettings } from "./connection.ts";
import { PipelineError, type PipelineItem, type PreparedStatements, runPipeline } from "./pipeline.ts";
import { isStalePlan } from "./refusal.ts";

/** How long a connection beyond the pool's size stays when nobody needs it. */
const overflowIdleMs = 10_000;
/** How long a connection is trusted without being tried. */
const trustedMs = 1_000;
/** How long the server may take for one batch before the connection is given up. */
const batchMs = 60_000;
/** How long it may take to show that a connection is alive. */
const pingMs = 2_000;
/** The server has no connection left for us; one of ours may become free. */
const tooManyConnections = "53300";
const connectionRetryMs = 50;

/** The process's connections to the database, but for the one that holds the process lock. */
export interface PostgresPool {
  /**
   * Runs the items as one transaction on a free connection; throws as `runPipeline` does, and when no connection became free in
   * time or could be made, or the server was silent for `answerMs`. Those who wait get their turn in order.
   */
  run(items: readonly PipelineItem[], answerMs?: number): Promise<(Row[] | null)[]>;
  /** Goes on with connections that are made from now on; those there are close when nothing is under way on them. */
  renew(): void;
  /** Closes every connection; nothing may be under way. */
  close(): Promise<void>;
}

/** What we know about a connection. */
interface Session {
  readonly prepared: PreparedStatements | null;
  /** How often the pool had been renewed when it was made. */
  readonly generation: number;
  usedAt: number;
}

/** The pool of a database. It connects when it is first used. */
export function openPool(config: PostgresConfig, env: Env, idleMs: number = overflowIdleMs): PostgresPool {
  const connectMs = Math.ceil(config.connectTimeoutSeconds * 1000);
  const waitMs = Math.ceil(config.poolTimeoutSeconds * 1000);
  // One of the connections that are allowed holds the process lock.
  const connectionsMax = Math.max(1, config.poolSize + config.maxOverflow - 1);
  const sessions = new WeakMap<Client, Session>();
  let generation = 0;

  const pool = new Pool({
    ...clientConfig(config),
    connectionTimeoutMillis: waitMs,
    max: connectionsMax,
    min: Math.min(config.poolSize, connectionsMax),
    idleTimeoutMillis: idleMs,
    // The pool hands its own options to its clients; connecting has a time limit of its own.
    Client: class extends Client {
      constructor(options?: object) {
        super({ ...options, connectionTimeoutMillis: connectMs });
      }
    },
    async onConnect(made) {
      const connected = made as Client;
      // A lost connection fails what is under way on it, which is where it is handled.
      connected.on("error", () => {});
      // The pool has a limit for connecting alone: one that falls silent here would keep its place for ever.
      if (config.preparedStatements) await withDeadline(connected, connectMs, connected.query(sessionSettings));
      sessions.set(connected, {
        prepared: config.preparedStatements ? new Map() : null,
        generation,
        usedAt: env.monotonic(),
      });
    },
  });
  // An idle connection was lost; the pool has dropped it.
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

  /** Cuts the connection when the server does not answer, which fails what is under way on it. */
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

  return {
    async run(items, answerMs = batchMs) {
      const client = await acquire();
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
    },
    renew() {
      generation++;
    },
    close: () => pool.end(),
  };
}

/** Whether the connection cannot be used for another batch after this failure. */
function isBroken(error: unknown): boolean {
  const cause = error instanceof PipelineError ? error.cause : null;
  if (!(cause instanceof DatabaseError)) return true;
  return cause.severity === "FATAL" || cause.severity === "PANIC" || isStalePlan(cause);
}
