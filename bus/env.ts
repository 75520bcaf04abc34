import { randomBytes } from "node:crypto";

/** Clock, timers, ids and randomness. Everything that would make two runs differ comes from here, so that tests can decide it. */
export interface Env {
  /** Epoch milliseconds. */
  now(): number;
  /** Milliseconds on a clock that never goes back and that all threads of a host share; only differences mean anything. */
  monotonic(): number;
  /** 32 hexadecimal digits, unguessable. */
  id(): string;
  /** In [0, 1). Not for secrets. */
  random(): number;
  /** Calls `work` once after `delayMs`. Never keeps the process alive. */
  timer(delayMs: number, work: () => void): Timer;
  /** Calls `work` at the end of this turn of the event loop: after everything that is already there to be read. */
  defer(work: () => void): void;
  /** Calls `work` as soon as what runs now has run: before anything else is read. Work that calls for itself this way starves the rest. */
  soon(work: () => void): void;
}

/** Work that is due later. */
export interface Timer {
  cancel(): void;
}

/** Lets everybody else in the thread have a turn. */
export function breathe(env: Pick<Env, "defer">): Promise<void> {
  return new Promise((resolve) => env.defer(resolve));
}

/** Of 32 hexadecimal digits those that say when: milliseconds of 8,900 years. */
const timeDigits = 12;

/**
 * An id for what is stored: 32 hexadecimal digits in the order of time, 80 bits of them unguessable, as RFC 9562 lays out its version 7. New
 * rows then lie together in an index, where random ones would each change a page of their own.
 */
export function orderedId(env: Env): string {
  return env.now().toString(16).padStart(timeDigits, "0") + env.id().slice(timeDigits);
}

/** The longest time that the event loop's own timers know; what is longer would be due at once. */
const delayMsMax = 2 ** 31 - 1;

/** 256 ids are made from one call for random bytes, which costs as much as one id would. */
const idBatchBytes = 4096;

/** The real world. */
export function systemEnv(): Env {
  let pool = "";
  let used = 0;
  // Each thread has its own beginning of `performance.now`, which is faster to read than the clock that they share.
  const beganAt = Number(process.hrtime.bigint()) / 1e6 - performance.now();
  return {
    now: Date.now,
    monotonic: () => beganAt + performance.now(),
    id() {
      if (used >= pool.length) {
        pool = randomBytes(idBatchBytes).toString("hex");
        used = 0;
      }
      used += 32;
      return pool.slice(used - 32, used);
    },
    random: Math.random,
    timer(delayMs, work) {
      let handle: NodeJS.Timeout;
      const wait = (leftMs: number): void => {
        handle = leftMs > delayMsMax ? setTimeout(wait, delayMsMax, leftMs - delayMsMax) : setTimeout(work, leftMs);
        handle.unref();
      };
      wait(delayMs);
      return { cancel: () => clearTimeout(handle) };
    },
    defer: (work) => void setImmediate(work),
    soon: queueMicrotask,
  };
}
