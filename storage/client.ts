import type { MessagePort } from "node:worker_threads";
import type { Env } from "../bus/env.ts";
import { SvcError } from "../bus/errors.ts";
import { LongReads } from "./sqlite/long-reads.ts";
import { OwnFiles } from "./sqlite/own-files.ts";
import { SqliteReader } from "./sqlite/reader.ts";
import type { StoreConfig } from "./store/config.ts";
import { StorePort } from "./store/port.ts";
import { createStore, type Store } from "./store/store.ts";

/** How long a look at the files counts for reads: a turn makes several, and each commit looks for itself. */
const lookMs = 100;

/**
 * How long a turn of the event loop may have taken when a read is still made in it. Reads are made at once, so that a log read page
 * by page would be one turn, however long it is: the next page waits until others had theirs.
 */
const turnMs = 8;

/**
 * A thread's own store over its port to the store thread. Writes always go there; on SQLite reads are made here, on a connection
 * of this thread, long ones of a large database in a pool of threads, and on Postgres they go there too. It is not to be used after
 * `close`.
 */
export function openStore(env: Env, config: StoreConfig, port: MessagePort): Store {
  const remote = new StorePort(env, port);
  if (config.engine === "postgres") return createStore(remote);

  const { path, lockPath } = config;
  const reader = new SqliteReader(path);
  const longReads = new LongReads(path, reader);
  const files = new OwnFiles(lockPath === undefined ? [path] : [path, lockPath]);
  let lookAt = Number.NEGATIVE_INFINITY;
  function look(now: number): void {
    if (now < lookAt) return;
    files.check();
    lookAt = now + lookMs;
  }
  /** When the turn's first read was made. */
  let turnAt: number | null = null;
  let closed = false;
  /** Reads that wait for another turn, the oldest first. */
  const waiting: (() => void)[] = [];
  function isLong(now: number): boolean {
    return turnAt !== null && now - turnAt > turnMs;
  }
  /** The oldest go on, each once what the one before was read for is done, as long as the turn has not taken long. */
  function goOn(): void {
    if (waiting.length === 0 || isLong(env.monotonic())) return;
    waiting.shift()?.();
    // A tick that a promise's step asks for comes when no more such steps are left.
    if (waiting.length > 0) queueMicrotask(() => process.nextTick(goOn));
  }
  function endTurn(): void {
    turnAt = null;
    goOn();
  }
  return createStore({
    inOrder: true,
    write: (ops, deadlineMs, onLate) => remote.write(ops, deadlineMs, onLate),
    async read(statement, params) {
      let now = env.monotonic();
      if (isLong(now)) {
        await new Promise<void>((resolve) => waiting.push(resolve));
        if (closed) throw new SvcError("storage_unavailable");
        now = env.monotonic();
      }
      if (turnAt === null) {
        turnAt = now;
        env.defer(endTurn);
      }
      look(now);
      return reader.read(statement, params);
    },
    async readLong(statement, params) {
      look(env.monotonic());
      return longReads.read(statement, params);
    },
    check: () => remote.check(),
    close() {
      closed = true;
      for (const go of waiting.splice(0)) go();
      remote.close();
      reader.close();
      longReads.close();
    },
  });
}
