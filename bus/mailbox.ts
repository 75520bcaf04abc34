/** Capacity beyond the limit, for messages that must not be refused: aborts and tool results. */
const reservedPlaces = 64;

/** A bounded FIFO queue. `push` returns false if it is full. */
export class Mailbox<T> {
  readonly #limit: number;
  #items: (T | undefined)[] = [];
  #head = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get size(): number {
    return this.#items.length - this.#head;
  }

  /** The item that `shift` would return. */
  get first(): T | undefined {
    return this.#items[this.#head];
  }

  push(item: T, reserved = false): boolean {
    if (this.size >= this.#limit + (reserved ? reservedPlaces : 0)) return false;
    this.#items.push(item);
    return true;
  }

  shift(): T | undefined {
    if (this.#head === this.#items.length) return undefined;
    const item = this.#items[this.#head];
    this.#items[this.#head++] = undefined;
    // Compacts only when at least half is consumed, so that a long queue is not copied repeatedly.
    if (this.#head === this.#items.length || (this.#head > 64 && this.#head * 2 > this.#items.length)) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }
}
