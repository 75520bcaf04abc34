// What comes and goes with every request is held here and not in a Map or Set of its own. Those get a new table again and again, as
// slots that were left fill the old one, and V8 has each table point to the next one, for iterators under way. A table that has
// reached the old generation keeps alive what it held last, the next table, what that held, and so on: all that was ever in it
// becomes old, with whatever it leads to, and is collected with the whole heap only. What is here clears the slot that is left.

/** Gives values numbers and finds them by those, for as long as they are here. No number is given twice. */
export class SlotTable<V> {
  readonly #first: number;
  /** The value with number n is at n modulo the length, which is a power of two. */
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

  /** Answers the number of the value. */
  add(value: V): number {
    if (this.#size * 2 >= this.#values.length) this.#grow();
    const mask = this.#values.length - 1;
    // Numbers whose slot somebody has who stays are left out.
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

  /** The same, and it is here no more. */
  take(number: number): V | undefined {
    const slot = this.#slotOf(number);
    if (slot < 0) return undefined;
    const value = this.#values[slot];
    this.#values[slot] = undefined;
    this.#numbers[slot] = -1;
    this.#size--;
    return value;
  }

  /** All that is here now, with its numbers. */
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

/** A Map whose entries come and go. Its table has nothing but keys and numbers in it. */
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

  /** Answers what was there. */
  take(key: string): V | undefined {
    const slot = this.#slots.get(key);
    if (slot === undefined) return undefined;
    this.#slots.delete(key);
    const value = this.#values[slot];
    this.#values[slot] = undefined;
    this.#free.push(slot);
    return value;
  }

  /** As of a Map: what is taken meanwhile does not come, and what is set meanwhile does. */
  *[Symbol.iterator](): IterableIterator<[string, V]> {
    for (const [key, slot] of this.#slots) yield [key, this.#values[slot] as V];
  }

  #newSlot(key: string): number {
    const slot = this.#free.pop() ?? this.#values.length;
    this.#slots.set(key, slot);
    return slot;
  }
}

/** What can be in one SlotSet at a time. */
export interface SlotMember {
  /** Where it is in its set, which alone changes it; -1 while it is in none. */
  slot: number;
}

/** A Set whose members come and go. */
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
   * The member at a slot, undefined behind the last. Who looks at one slot after the other sees all but those that are moved
   * meanwhile.
   */
  at(slot: number): T | undefined {
    return this.#members[slot];
  }

  /** Those that are members now, in no order. */
  [Symbol.iterator](): IterableIterator<T> {
    return [...this.#members].values();
  }
}
