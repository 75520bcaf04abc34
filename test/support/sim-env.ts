import type { Env, Timer } from "../../bus/env.ts";

// A world in one thread: a clock that moves on demand, and planned events in an order that the seed decides.
// Simultaneous events run in any order, but one node's deferred work keeps its order, as in an event loop. In an
// orderly world simultaneous events run in the order of planning. Promises that an event settles run before the next
// event, and so does soon-work.

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
  /** Errors thrown where no caller can catch them. */
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

  /** Calls `work` at a future time, unless the node of `env` has ended by then. */
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

  /** The number of planned events on the node of `env`. */
  planned(env: SimEnv): number {
    return this.#planned.filter((planned) => planned.env === env && !planned.cancelled).length;
  }

  /** Schedules the deferred work of the node of `env`. */
  deferring(env: SimEnv): void {
    this.#deferring.push(env);
  }

  /** Runs the soon-work of the node of `env` before any other event, unless it has ended or is stuck. */
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

  /** Runs all due events without moving the clock. Rejects with the error of an event. */
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

  /** Moves the clock, and runs the events that become due. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await this.run();
    while (this.#moveTo(end)) await this.run();
  }

  /** Lets time pass until `promise` is settled, at most `limitMs`; returns or throws its outcome. */
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

  /** Resolves when all promises have run. */
  async #settled(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    if (this.#thrown.length > 0) throw this.#thrown.shift();
  }
}

/** The view of one node on the world. */
export class SimEnv implements Env {
  readonly #sim: Sim;
  #deferred: (() => void)[] = [];
  /** The events that came while the node was stuck; null while it is not. */
  #postponed: (() => void)[] | null = null;
  #ended = false;
  /** The lead of the node's clock. */
  #aheadMs = 0;

  constructor(sim: Sim) {
    this.#sim = sim;
  }

  /** Sets the clock of the node, forward or back. Timers by differences of times are not affected. */
  setClock(byMs: number): void {
    this.#aheadMs += byMs;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** The node ends: none of its planned work runs. */
  end(): void {
    this.#ended = true;
  }

  /** The node is stuck in a long computation: nothing runs on it until `goOn`. */
  stall(): void {
    this.#postponed ??= [];
  }

  goOn(): void {
    const postponed = this.#postponed ?? [];
    this.#postponed = null;
    for (const work of postponed) this.defer(work);
  }

  /** Stores `work` for later when the node is stuck. */
  postponed(work: () => void): boolean {
    this.#postponed?.push(work);
    return this.#postponed !== null;
  }

  /** Runs all work that was deferred until now. */
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
