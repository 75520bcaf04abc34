import type { MessagePort } from "node:worker_threads";
import type { Env } from "../bus/env.ts";
import { SvcError } from "../bus/errors.ts";
import { LongReads } from "./sqlite/long-reads.ts";
import { OwnFiles } from "./sqlite/own-files.ts";
import { SqliteReader } from "./sqlite/reader.ts";
import type { StoreConfig } from "./store/config.ts";
import { StorePort } from "./store/port.ts";
import { createStore, type Store } from "./store/store.ts";

/** Milliseconds for which a check of the database files stays valid for reads. Each commit checks them itself. */
const lookMs = 100;

/**
 * Milliseconds of one event-loop turn that synchronous reads may use. Without this bound, reading a long log page by
 * page would be one turn. Later reads wait, so that other work gets its turn.
 */
const turnMs = 8;

/**
 * Opens a thread's own store, over its port to the store thread. Writes always go through the port, and so do reads on
 * Postgres. On SQLite this thread reads over its own connection; long reads of a large database run in a thread pool.
 * Not usable after `close`.
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
  /** Time of the first read in the current turn, or null. */
  let turnAt: number | null = null;
  let closed = false;
  /** Reads that wait for the next turn, oldest first. */
  const waiting: (() => void)[] = [];
  function isLong(now: number): boolean {
    return turnAt !== null && now - turnAt > turnMs;
  }
  /** Runs the oldest waiting read, then the next after the work that follows it, until the turn has used its time. */
  function goOn(): void {
    if (waiting.length === 0 || isLong(env.monotonic())) return;
    waiting.shift()?.();
    // A tick that is requested in a microtask runs after all pending microtasks, so after the continuation of this
    // read.
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
