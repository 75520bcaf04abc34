/** Limits the number of concurrent tasks; others wait in order. */
export class Semaphore {
  readonly #permits: number;
  #taken = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(permits: number) {
    this.#permits = permits;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#taken < this.#permits) this.#taken++;
    // A finished task passes its permit to the first waiting one.
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#taken--;
    }
  }
}
