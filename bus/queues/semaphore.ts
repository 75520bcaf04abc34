/** Lets so many do something at once; the others wait their turn. */
export class Semaphore {
  readonly #permits: number;
  #taken = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(permits: number) {
    this.#permits = permits;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#taken < this.#permits) this.#taken++;
    // Whoever leaves gives its permit to the first that waits.
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
