/** Durations over all restarts, in milliseconds. */
export interface Took {
  readonly count: number;
  readonly p50: number;
  readonly p95: number;
  readonly max: number;
}

/** Measures restarts. The measurements do not affect the result. */
export class Restarts {
  readonly #ready: number[] = [];
  readonly #again: number[] = [];
  #startedAt = 0;
  #readyAt = 0;
  /** Runs that were active at the last kill and have sent no request since. */
  #missing = new Set<number>();

  /** Records a kill and the runs active at that time. A run killed again before its next request is not measured. */
  killed(busy: ReadonlySet<number>, now: number): void {
    this.#missing = new Set(busy);
    this.#startedAt = now;
    this.#readyAt = 0;
  }

  ready(now: number): void {
    this.#readyAt = now;
    this.#ready.push(now - this.#startedAt);
  }

  /** Records a request of a run. */
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
