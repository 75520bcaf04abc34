/** This many crashes within the window, and the actor is refused until the window is over. */
const crashesMax = 5;
const windowMs = 10_000;

/**
 * Which actors have crashed lately, so that one that crashes again and again does not take the thread's time. Times are those of the
 * monotonic clock: after one of the other, an actor would be refused for as long as that was set back.
 */
export class CrashHistory {
  /** Times of the crashes of an actor within one window; who crashed last stands last. */
  readonly #crashes = new Map<string, number[]>();

  /** How many actors it remembers: those that have crashed within the window, and at most a few more. */
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

  /** True from the last of too many crashes until the window after it is over. */
  isLooping(id: string, now: number): boolean {
    const crashes = this.#crashes.get(id);
    return crashes !== undefined && crashes.length >= crashesMax && lastOf(crashes) > now - windowMs;
  }

  /** Drops those whose window is over: they stand first. */
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
