import type { Env, Timer } from "../../bus/env.ts";

// A world in one thread: a clock that moves only when told to, and everything that is to happen, in an order that the seed
// decides. What is due at the same time happens in any order, except that what one node has deferred keeps its order, as in an
// event loop; in an orderly world it happens in the order in which it was planned. Promises that an event settles run on before
// the next event, and so does what is to happen soon.

/** More events than this without coming to rest is a loop that never ends. */
const eventsMax = 5_000_000;
const startOfTime = 1_700_000_000_000;

interface Planned {
  readonly at: number;
  readonly env: SimEnv;
  readonly work: () => void;
  cancelled: boolean;
}

export class Sim {
  readonly seed: number;
  readonly #orderly: boolean;
  #now = startOfTime;
  #state: number;
  #events = 0;
  /** By time, the earliest last. */
  readonly #planned: Planned[] = [];
  readonly #due: Planned[] = [];
  readonly #deferring: SimEnv[] = [];
  /** What was thrown where nobody could catch it. */
  readonly #thrown: unknown[] = [];

  constructor(seed: number, { orderly = false } = {}) {
    this.seed = seed;
    this.#orderly = orderly;
    this.#state = seed >>> 0;
  }

  get now(): number {
    return this.#now;
  }

  /** The Env of one node: its own turns of the event loop, the clock of all. */
  env(): SimEnv {
    return new SimEnv(this);
  }

  /** In [0, 1): the generator "mulberry32". */
  random(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let value = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number from 0 to `below` - 1. */
  int(below: number): number {
    return Math.floor(this.random() * below);
  }

  /** Calls `work` at a time to come, unless the node of `env` has ended by then. */
  plan(env: SimEnv, delayMs: number, work: () => void): Timer {
    const planned: Planned = { at: this.#now + Math.max(0, delayMs), env, work, cancelled: false };
    let low = 0;
    let high = this.#planned.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#planned[middle] as Planned).at > planned.at) low = middle + 1;
      else high = middle;
    }
    this.#planned.splice(low, 0, planned);
    return {
      cancel() {
        planned.cancelled = true;
      },
    };
  }

  /** How much is still to happen on the node of `env` at a time to come. */
  planned(env: SimEnv): number {
    return this.#planned.filter((planned) => planned.env === env && !planned.cancelled).length;
  }

  /** The node of `env` has work for the end of its turn. */
  deferring(env: SimEnv): void {
    this.#deferring.push(env);
  }

  /** Does what is to happen on the node of `env` before any other event, unless it has ended or is stuck. */
  happenSoon(env: SimEnv, work: () => void): void {
    queueMicrotask(() => {
      if (env.ended || env.postponed(work)) return;
      try {
        this.#count();
        work();
      } catch (error) {
        this.#thrown.push(error);
      }
    });
  }

  /** Does what can be done without the clock moving. Rejects with what an event has thrown. */
  async run(): Promise<void> {
    await this.#settled();
    for (;;) {
      while ((this.#planned.at(-1)?.at ?? Infinity) <= this.#now) this.#due.push(this.#planned.pop() as Planned);
      const choices = this.#due.length + this.#deferring.length;
      if (choices === 0) return;
      const choice = this.#orderly ? 0 : this.int(choices);
      if (this.#orderly && this.#due.length > 0) await this.#happen(this.#due.shift() as Planned);
      else if (choice < this.#due.length) await this.#happen(takeOut(this.#due, choice));
      else
        for (const planned of takeOut(this.#deferring, choice - this.#due.length).endTurn())
          await this.#happen(planned);
    }
  }

  /** Moves the clock, and does on the way what becomes due. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await this.run();
    while (this.#moveTo(end)) await this.run();
  }

  /** Lets time pass until `promise` is settled, at most `limitMs`; answers or throws what it does. */
  async until<T>(promise: Promise<T>, limitMs = 60_000): Promise<T> {
    const end = this.#now + limitMs;
    let over = false;
    const done = (): void => {
      over = true;
    };
    promise.then(done, done);
    await this.run();
    while (!over && this.#moveTo(end)) await this.run();
    if (!over) throw new Error(`not settled after ${limitMs} simulated ms (seed ${this.seed})`);
    return promise;
  }

  /** Moves the clock to the next event, at most to `end`; false when it was there already. */
  #moveTo(end: number): boolean {
    if (this.#now >= end) return false;
    this.#now = Math.min(end, Math.max(this.#now, this.#planned.at(-1)?.at ?? end));
    return true;
  }

  async #happen({ env, work, cancelled }: Omit<Planned, "at">): Promise<void> {
    if (cancelled || env.ended || env.postponed(work)) return;
    this.#count();
    work();
    await this.#settled();
  }

  #count(): void {
    if (++this.#events > eventsMax) throw new Error(`the simulation does not come to rest (seed ${this.seed})`);
  }

  /** Resolves when no promise has anything left to do. */
  async #settled(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    if (this.#thrown.length > 0) throw this.#thrown.shift();
  }
}

/** What one node of a simulation has of the world. */
export class SimEnv implements Env {
  readonly #sim: Sim;
  #deferred: (() => void)[] = [];
  /** What should have happened while the node was stuck; null while it is not. */
  #postponed: (() => void)[] | null = null;
  #ended = false;
  /** How far the node's clock is ahead. */
  #aheadMs = 0;

  constructor(sim: Sim) {
    this.#sim = sim;
  }

  /** The clock of the node is set, forward or back. What goes by a time that only differs is not touched by that. */
  setClock(byMs: number): void {
    this.#aheadMs += byMs;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** The node is no more: nothing that it has planned happens. */
  end(): void {
    this.#ended = true;
  }

  /** The node is stuck in a long computation: nothing happens on it until `goOn`. */
  stall(): void {
    this.#postponed ??= [];
  }

  goOn(): void {
    const postponed = this.#postponed ?? [];
    this.#postponed = null;
    for (const work of postponed) this.defer(work);
  }

  /** Keeps `work` for later when the node is stuck. */
  postponed(work: () => void): boolean {
    this.#postponed?.push(work);
    return this.#postponed !== null;
  }

  /** Everything that was deferred up to now. */
  endTurn(): { env: SimEnv; work: () => void; cancelled: boolean }[] {
    const deferred = this.#deferred;
    this.#deferred = [];
    return deferred.map((work) => ({ env: this, work, cancelled: false }));
  }

  now(): number {
    return Math.floor(this.#sim.now) + this.#aheadMs;
  }

  monotonic(): number {
    return this.#sim.now - startOfTime;
  }

  id(): string {
    let text = "";
    while (text.length < 32) text += this.#sim.int(16).toString(16);
    return text;
  }

  random(): number {
    return this.#sim.random();
  }

  timer(delayMs: number, work: () => void): Timer {
    return this.#sim.plan(this, delayMs, work);
  }

  defer(work: () => void): void {
    if (this.#deferred.length === 0) this.#sim.deferring(this);
    this.#deferred.push(work);
  }

  soon(work: () => void): void {
    this.#sim.happenSoon(this, work);
  }
}

function takeOut<T>(list: T[], index: number): T {
  const last = list.pop() as T;
  if (index === list.length) return last;
  const taken = list[index] as T;
  list[index] = last;
  return taken;
}
