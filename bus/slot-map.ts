// Collections for short-lived entries, as a replacement for Map and Set. Those allocate a new table whenever deleted
// entries have filled the old one. V8 links each table to the next, for iterators in progress. A table in the old
// generation therefore keeps all later tables and their contents alive until a full collection. These collections clear
// the slot of a deleted entry.

/** Assigns numbers to values and finds values by number. No number is reused. */
export class SlotTable<V> {
  readonly #first: number;
  /** The value with number n is at index n modulo the length, which is a power of two. */
  #values: (V | undefined)[] = new Array(startLength).fill(undefined);
  #numbers: number[] = new Array(startLength).fill(-1);
  #next = 0;
  #size = 0;

  /** All numbers are at least `first`. */
  constructor(first: number) {
    this.#first = first;
  }

  get size(): number {
    return this.#size;
  }

  /** Returns the number of the value. */
  add(value: V): number {
    if (this.#size * 2 >= this.#values.length) this.#grow();
    const mask = this.#values.length - 1;
    // Skips numbers whose slot is occupied.
    while (this.#numbers[this.#next & mask] !== -1) this.#next++;
    const number = this.#next++;
    this.#values[number & mask] = value;
    this.#numbers[number & mask] = number;
    this.#size++;
    return this.#first + number;
  }

  get(number: number): V | undefined {
    const slot = this.#slotOf(number);
    return slot < 0 ? undefined : this.#values[slot];
  }

  /** Removes and returns a value. */
  take(number: number): V | undefined {
    const slot = this.#slotOf(number);
    if (slot < 0) return undefined;
    const value = this.#values[slot];
    this.#values[slot] = undefined;
    this.#numbers[slot] = -1;
    this.#size--;
    return value;
  }

  /** Returns all current values with their numbers. */
  entries(): [number, V][] {
    const found: [number, V][] = [];
    for (const [slot, number] of this.#numbers.entries())
      if (number >= 0) found.push([this.#first + number, this.#values[slot] as V]);
    return found;
  }

  #slotOf(number: number): number {
    const own = number - this.#first;
    const slot = own & (this.#values.length - 1);
    return this.#numbers[slot] === own ? slot : -1;
  }

  #grow(): void {
    const [values, numbers] = [this.#values, this.#numbers];
    const mask = values.length * 2 - 1;
    this.#values = new Array(values.length * 2).fill(undefined);
    this.#numbers = new Array(values.length * 2).fill(-1);
    for (const [slot, number] of numbers.entries()) {
      if (number < 0) continue;
      this.#values[number & mask] = values[slot];
      this.#numbers[number & mask] = number;
    }
  }
}

const startLength = 64;

/** A Map for short-lived entries. Its table holds only keys and indexes. */
export class SlotMap<V> {
  readonly #slots = new Map<string, number>();
  readonly #values: (V | undefined)[] = [];
  readonly #free: number[] = [];

  get size(): number {
    return this.#slots.size;
  }

  get(key: string): V | undefined {
    const slot = this.#slots.get(key);
    return slot === undefined ? undefined : this.#values[slot];
  }

  set(key: string, value: V): void {
    const slot = this.#slots.get(key) ?? this.#newSlot(key);
    this.#values[slot] = value;
  }

  /** Removes and returns a value. */
  take(key: string): V | undefined {
    const slot = this.#slots.get(key);
    if (slot === undefined) return undefined;
    this.#slots.delete(key);
    const value = this.#values[slot];
    this.#values[slot] = undefined;
    this.#free.push(slot);
    return value;
  }

  /** Iterates like a Map: entries that are deleted during the iteration are skipped, and added ones are included. */
  *[Symbol.iterator](): IterableIterator<[string, V]> {
    for (const [key, slot] of this.#slots) yield [key, this.#values[slot] as V];
  }

  #newSlot(key: string): number {
    const slot = this.#free.pop() ?? this.#values.length;
    this.#slots.set(key, slot);
    return slot;
  }
}

/** An object that can be in one SlotSet at a time. */
export interface SlotMember {
  /** Its index in the set, which alone changes it; -1 outside of a set. */
  slot: number;
}

/** A Set for short-lived members. */
export class SlotSet<T extends SlotMember> {
  readonly #members: T[] = [];

  get size(): number {
    return this.#members.length;
  }

  add(member: T): void {
    if (member.slot >= 0) return;
    member.slot = this.#members.length;
    this.#members.push(member);
  }

  delete(member: T): void {
    const { slot } = member;
    if (slot < 0) return;
    member.slot = -1;
    const last = this.#members.pop() as T;
    if (last === member) return;
    last.slot = slot;
    this.#members[slot] = last;
  }

  /**
   * Returns the member at an index; undefined after the last. A loop over the indexes misses members that move during
   * it.
   */
  at(slot: number): T | undefined {
    return this.#members[slot];
  }

  /** Iterates over the current members, in no particular order. */
  [Symbol.iterator](): IterableIterator<T> {
    return [...this.#members].values();
  }
}
