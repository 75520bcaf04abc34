import { randomBytes } from "node:crypto";

/** Clock, timers, ids and randomness. All sources of nondeterminism are here, so that tests can control them. */
export interface Env {
  /** Epoch milliseconds. */
  now(): number;
  /** Milliseconds of a monotonic clock that all threads of a host share. Only differences are meaningful. */
  monotonic(): number;
  /** 32 hexadecimal digits, unguessable. */
  id(): string;
  /** In [0, 1). Not for secrets. */
  random(): number;
  /** Calls `work` once after `delayMs`. Does not keep the process alive. */
  timer(delayMs: number, work: () => void): Timer;
  /** Calls `work` at the end of this event-loop turn, after all pending input was read. */
  defer(work: () => void): void;
  /** Calls `work` as a microtask, before further input is read. Repeated use blocks all other work. */
  soon(work: () => void): void;
}

/** A pending timer. */
export interface Timer {
  cancel(): void;
}

/** Yields to the event loop once. */
export function breathe(env: Pick<Env, "defer">): Promise<void> {
  return new Promise((resolve) => env.defer(resolve));
}

/** Leading digits of an id that hold the time; enough for 8,900 years of milliseconds. */
const timeDigits = 12;

/**
 * Returns an id for stored rows: 32 hexadecimal digits in order of time, with 80 random bits, similar to UUID version 7
 * (RFC 9562). New rows are then adjacent in an index, whereas random ids would each change another page.
 */
export function orderedId(env: Env): string {
  return env.now().toString(16).padStart(timeDigits, "0") + env.id().slice(timeDigits);
}

/** Max delay of Node's timers; a longer one would fire at once. */
const delayMsMax = 2 ** 31 - 1;

/** One call for random bytes makes 256 ids, at the cost of a single id. */
const idBatchBytes = 4096;

/** Returns the environment of production, with the system's clock and randomness. The clock shows `clockOffsetMs` more. */
export function systemEnv(clockOffsetMs = 0): Env {
  let pool = "";
  let used = 0;
  // Offset from `performance.now`, which differs per thread but is faster to read than the shared clock.
  const beganAt = Number(process.hrtime.bigint()) / 1e6 - performance.now();
  return {
    now: clockOffsetMs === 0 ? Date.now : () => Date.now() + clockOffsetMs,
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
