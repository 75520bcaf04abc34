import type { Env } from "../../bus/env.ts";

/** A clock that stands where a run is, and no timers: nothing is late, and nothing is given up. What is due at once is done at once. */
export class ReplayEnv implements Env {
  readonly #real: Env;
  #now: number;

  constructor(real: Env, now: number) {
    this.#real = real;
    this.#now = now;
  }

  /** Time that the run was at work goes by. */
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
