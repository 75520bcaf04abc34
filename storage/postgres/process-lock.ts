import type { Client } from "pg";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { PostgresConfig } from "../store/config.ts";
import { connectToSchema } from "./connection.ts";

// One database belongs to one process: an advisory lock on a connection of its own, which ends with the process. When that
// connection drops, writes wait until the lock is held again, and when another process has taken it meanwhile, this one ends.

/** Any number that nobody else takes; the second key of the lock is the schema. */
const lockClass = 7_566_947;
/** How long a lock of a process that has just ended may linger. */
const lingerMs = 2_000;
const retryMs = 100;
const reconnectMs = { first: 100, longest: 2_000 };

const schemaKey = "hashtext(current_schema())";
const holderQuery = `SELECT l.pid, host(a.client_addr) AS client, a.backend_start AS since
  FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
  WHERE l.locktype = 'advisory' AND l.classid = ${lockClass} AND l.objsubid = 2 AND l.granted
    AND l.objid::bigint = (${schemaKey}::bigint & 4294967295)
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

/** Another process has the database. */
class DatabaseInUse extends Error {
  override readonly name = "DatabaseInUse";
}

/** The mark that this process and no other writes to the database. */
export interface ProcessLock {
  /**
   * Resolves at once while the lock is held, else when it is held again; refuses with storage_unavailable after `timeoutMs`, and
   * when the lock is lost for good.
   */
  whenHeld(timeoutMs: number): Promise<void>;
  /** Takes it again on a new connection: locks are no matter of a server's standby, which may have taken its place. */
  renew(): void;
  release(): Promise<void>;
}

interface Waiting {
  go(): void;
  stop(): void;
}

/** Takes the lock, or throws `DatabaseInUse`. Calls `onLost` when it is lost to another process later: nothing may be written then. */
export async function takeProcessLock(
  config: PostgresConfig,
  env: Env,
  onLost: (error: DatabaseInUse) => void,
): Promise<ProcessLock> {
  // A pooler lends a server connection for a transaction at a time, so that the lock must be a transaction's.
  const scope = config.preparedStatements ? "" : "_xact";
  const takeQuery = `SELECT pg_try_advisory${scope}_lock(${lockClass}, ${schemaKey}) AS taken, pg_backend_pid() AS pid`;
  const connectMs = Math.ceil(config.connectTimeoutSeconds * 1000);
  const waiting = new Set<Waiting>();
  let held: Client | null = null;
  let pid = 0;
  let over = false;
  let lost: DatabaseInUse | null = null;

  const pause = (ms: number) => new Promise<void>((resolve) => env.timer(ms, resolve));

  /** Connects and takes the lock; `pid` is the server process that had it last for us. */
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
      // Not waited for: a server that is away does not say goodbye.
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

  /** Ends our own lost connection when the server has not noticed that it is lost; throws when somebody else has the lock. */
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
