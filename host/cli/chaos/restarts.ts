/** How long something took, over all restarts, in milliseconds. */
export interface Took {
  readonly count: number;
  readonly p50: number;
  readonly p95: number;
  readonly max: number;
}

/** What is measured of restarts. Nothing is decided by it. */
export class Restarts {
  readonly #ready: number[] = [];
  readonly #again: number[] = [];
  #startedAt = 0;
  #readyAt = 0;
  /** Runs that were at work when the server was killed, and have not been seen again. */
  #missing = new Set<number>();

  /** The server was killed, with these at work. One that was killed again before it was seen is not counted. */
  killed(busy: ReadonlySet<number>, now: number): void {
    this.#missing = new Set(busy);
    this.#startedAt = now;
    this.#readyAt = 0;
  }

  ready(now: number): void {
    this.#readyAt = now;
    this.#ready.push(now - this.#startedAt);
  }

  /** Something of a run has come in. */
  seen(run: number, now: number): void {
    if (this.#startedAt > 0 && this.#missing.delete(run)) this.#again.push(now - (this.#readyAt || now));
  }

  get result(): { readonly start_ms: Took; readonly running_again_ms: Took } {
    return { start_ms: took(this.#ready), running_again_ms: took(this.#again) };
  }
}

function took(values: readonly number[]): Took {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (part: number): number => Math.round(sorted[Math.ceil(sorted.length * part) - 1] ?? 0);
  return { count: sorted.length, p50: at(0.5), p95: at(0.95), max: at(1) };
}
