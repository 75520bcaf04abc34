/** Lifetime of a grant. */
export const grantMs = 1_000;

/** Tokens granted to other actors that may still be spent, counted for this period and the previous one. */
export class PrefetchGrants {
  #now = 0;
  #before = 0;
  #periodEnds = Number.NEGATIVE_INFINITY;

  grant(count: number, now: number): void {
    this.#roll(now);
    this.#now += count;
  }

  /** Returns the number of tokens that may still be spent. */
  out(now: number): number {
    this.#roll(now);
    return this.#now + this.#before;
  }

  #roll(now: number): void {
    if (now < this.#periodEnds) return;
    this.#before = now < this.#periodEnds + grantMs ? this.#now : 0;
    this.#now = 0;
    this.#periodEnds = now + grantMs;
  }
}
