import type { Store } from "../store/store.ts";
import { reserveThreadKeys } from "./threads.ts";

/** Keys taken from the store at once. What a restart leaves unused is lost, which harms nobody. */
const blockSize = 1024;

/** Hands out keys for new threads without asking the store for each. */
export class ThreadKeys {
  readonly #store: Store;
  #next = 0;
  #end = 0;
  #reserving: Promise<void> | null = null;

  constructor(store: Store) {
    this.#store = store;
  }

  /** A key that is there; null when the store has to be asked. */
  take(): number | null {
    return this.#next === this.#end ? null : this.#next++;
  }

  async next(): Promise<number> {
    for (;;) {
      const key = this.take();
      if (key !== null) return key;
      this.#reserving ??= this.#reserve().finally(() => {
        this.#reserving = null;
      });
      await this.#reserving;
    }
  }

  async #reserve(): Promise<void> {
    const first = await reserveThreadKeys(this.#store.system, blockSize);
    this.#next = first;
    this.#end = first + blockSize;
  }
}
