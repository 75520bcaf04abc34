/** After this many crashes within the window, messages to the actor are refused until the window has passed. */
const crashesMax = 5;
const windowMs = 10_000;

/**
 * Records recent crashes, so that an actor that crashes repeatedly does not use up its thread. Times are monotonic; with the
 * system clock, setting it back would prolong a refusal.
 */
export class CrashHistory {
  /** Crash times of each actor within one window, most recently crashed last. */
  readonly #crashes = new Map<string, number[]>();

  /** Number of actors with recorded crashes. */
  get size(): number {
    return this.#crashes.size;
  }

  note(id: string, now: number): void {
    const recent = (this.#crashes.get(id) ?? []).filter((at) => at > now - windowMs);
    recent.push(now);
    this.#crashes.delete(id);
    this.#crashes.set(id, recent);
    this.#forget(now);
  }

  /** True after too many crashes, until the window after the last one has passed. */
  isLooping(id: string, now: number): boolean {
    const crashes = this.#crashes.get(id);
    return crashes !== undefined && crashes.length >= crashesMax && lastOf(crashes) > now - windowMs;
  }

  /** Drops actors whose window has passed; they come first. */
  #forget(now: number): void {
    for (const [id, crashes] of this.#crashes) {
      if (lastOf(crashes) > now - windowMs) return;
      this.#crashes.delete(id);
    }
  }
}

function lastOf(crashes: readonly number[]): number {
  return crashes.at(-1) ?? 0;
}
