import type { Client } from "pg";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { PostgresConfig } from "../store/config.ts";
import { connectToSchema } from "./connection.ts";

// A database belongs to one process. The process holds an advisory lock on a dedicated connection, which ends with it.
// If that connection drops, writes wait until the process holds the lock again. If another process has taken the lock
// by then, this process ends.

/** An arbitrary number that identifies svc's lock; the second key of the lock is the schema. */
const lockClass = 7_566_947;
/** Time to wait for the lock of a process that has just ended. */
const lingerMs = 2_000;
const retryMs = 100;
const reconnectMs = { first: 100, longest: 2_000 };

const schemaKey = "hashtext(current_schema())";
const holderQuery = `SELECT l.pid, host(a.client_addr) AS client, a.backend_start AS since
  FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
  WHERE l.locktype = 'advisory' AND l.classid = ${lockClass} AND l.objsubid = 2 AND l.granted
    AND l.objid::bigint = (${schemaKey}::bigint & 4294967295)
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

/** Another process holds the lock of the database. */
class DatabaseInUse extends Error {
  override readonly name = "DatabaseInUse";
}

/** The guarantee that only this process writes to the database. */
export interface ProcessLock {
  /**
   * Resolves at once while the lock is held, else when it is held again. Refuses with storage_unavailable after
   * `timeoutMs`, and when the lock is lost for good.
   */
  whenHeld(timeoutMs: number): Promise<void>;
  /** Takes the lock again on a new connection, because a standby that replaced the server does not know the lock. */
  renew(): void;
  release(): Promise<void>;
}

interface Waiting {
  go(): void;
  stop(): void;
}

/**
 * Takes the lock, or throws `DatabaseInUse`. Calls `onLost` if another process takes it later; nothing may be written
 * then.
 */
export async function takeProcessLock(
  config: PostgresConfig,
  env: Env,
  onLost: (error: DatabaseInUse) => void,
): Promise<ProcessLock> {
  // A pooler assigns a server connection per transaction, so the lock must belong to a transaction.
  const scope = config.preparedStatements ? "" : "_xact";
  const takeQuery = `SELECT pg_try_advisory${scope}_lock(${lockClass}, ${schemaKey}) AS taken, pg_backend_pid() AS pid`;
  const connectMs = Math.ceil(config.connectTimeoutSeconds * 1000);
  const waiting = new Set<Waiting>();
  let held: Client | null = null;
  let pid = 0;
  let over = false;
  let lost: DatabaseInUse | null = null;

  const pause = (ms: number) => new Promise<void>((resolve) => env.timer(ms, resolve));

  /** Connects and takes the lock. `pid` is the server process that last held it for this process. */
  async function take(): Promise<void> {
    const client = await connectToSchema(config);
    const deadline = env.timer(connectMs + 2 * lingerMs, () => client.connection.stream.destroy());
    try {
      if (scope)
        await client.query(
          "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT set_config('idle_in_transaction_session_timeout', '0', true)",
        );
      const until = env.monotonic() + lingerMs;
      while (true) {
        const { rows } = await client.query<{ taken: boolean; pid: number }>(takeQuery);
        const [answer] = rows;
        if (answer?.taken) {
          pid = answer.pid;
          break;
        }
        await makeRoom(client, env.monotonic() >= until);
        await pause(retryMs);
      }
    } catch (error) {
      // Not awaited: an unreachable server does not answer the termination message.
      void client.end().catch(() => {});
      throw error;
    } finally {
      deadline.cancel();
    }
    held = client;
    client.once("end", () => {
      held = null;
      if (!over) void retake();
    });
    for (const { go } of waiting) go();
  }

  /**
   * Terminates this process's own lost connection if the server still holds its lock. Throws if another process holds
   * it.
   */
  async function makeRoom(client: Client, patienceIsOver: boolean): Promise<void> {
    const { rows } = await client.query<{ pid: number; client: string | null; since: Date | null }>(holderQuery);
    const [holder] = rows;
    if (holder && holder.pid === pid) await client.query("SELECT pg_terminate_backend($1)", [pid]);
    else if (holder && patienceIsOver)
      throw new DatabaseInUse(
        `another svc process uses this database: server process ${holder.pid}, from ${holder.client ?? "a local socket"}` +
          ` since ${holder.since?.toISOString() ?? "an unknown time"}`,
      );
  }

  async function retake(): Promise<void> {
    for (let wait = reconnectMs.first; !over; wait = Math.min(wait * 2, reconnectMs.longest)) {
      try {
        await take();
        if (over) await (held as Client | null)?.end();
        return;
      } catch (error) {
        if (error instanceof DatabaseInUse) {
          over = true;
          lost = error;
          for (const { stop } of waiting) stop();
          onLost(error);
          return;
        }
        await pause(wait);
      }
    }
  }

  await take();
  return {
    whenHeld(timeoutMs) {
      if (held) return Promise.resolve();
      return new Promise((resolve, reject) => {
        const settle = (work: () => void) => {
          deadline.cancel();
          waiting.delete(waiter);
          work();
        };
        const refuse = () =>
          reject(new SvcError("storage_unavailable", {}, { cause: lost ?? new Error("no connection") }));
        const waiter: Waiting = { go: () => settle(resolve), stop: () => settle(refuse) };
        const deadline = env.timer(timeoutMs, waiter.stop);
        waiting.add(waiter);
        if (lost) waiter.stop();
      });
    },
    renew() {
      held?.connection.stream.destroy();
    },
    async release() {
      over = true;
      await held?.end();
    },
  };
}
