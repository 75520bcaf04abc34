import type { Store } from "../store/store.ts";
import { reserveThreadKeys } from "./threads.ts";

/** Keys reserved at once. Those unused at a restart are lost, which is harmless. */
const blockSize = 1024;

/** Allocates keys for new threads without a store access for each. */
export class ThreadKeys {
  readonly #store: Store;
  #next = 0;
  #end = 0;
  #reserving: Promise<void> | null = null;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Returns a reserved key; null if none are left. */
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
