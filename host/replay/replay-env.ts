import type { Env } from "../../bus/env.ts";

/**
 * A clock that only advances with the replayed run, and no delayed timers, so that nothing times out. Timers without a delay
 * fire.
 */
export class ReplayEnv implements Env {
  readonly #real: Env;
  #now: number;

  constructor(real: Env, now: number) {
    this.#real = real;
    this.#now = now;
  }

  /** Advances the clock by the duration of recorded work. */
  pass(ms: number): void {
    this.#now += Math.max(0, ms);
  }

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return this.#real.monotonic();
  }

  id(): string {
    return this.#real.id();
  }

  random(): number {
    return this.#real.random();
  }

  timer(delayMs: number, work: () => void): { cancel(): void } {
    let isDue = delayMs <= 0;
    if (isDue) this.#real.soon(() => void (isDue && work()));
    return {
      cancel() {
        isDue = false;
      },
    };
  }

  defer(work: () => void): void {
    this.#real.defer(work);
  }

  soon(work: () => void): void {
    this.#real.soon(work);
  }
}
