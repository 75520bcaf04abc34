import type { Env } from "../../bus/env.ts";
import { TurnoverMap } from "../../bus/turnover.ts";

// A line for work that would hold up everybody if it were done at once. Tenants take turns, so that the crowd of one is no wait for
// another; a tenant's own go in the order in which they came, and those that have begun before those that have not.

/** How much goes on at a time. */
export interface LineBounds {
  /** Turns that may be under way at a time. */
  readonly atOnce: number;
  /** Turns that begin before the event loop has gone on to other things. */
  readonly perLoop: number;
  /** Whether a tenant that has nothing under way may have a turn beyond `atOnce`. */
  readonly oneEach: boolean;
}

/** Those of a tenant that wait, by their numbers and in the order of those. */
interface Waiting {
  readonly begun: TurnoverMap<Place>;
  readonly fresh: TurnoverMap<Place>;
}

/** Says whose turn it is. */
export class FairLine {
  readonly #env: Env;
  readonly #bounds: LineBounds;
  /** Tenants in the order of their next turn. */
  readonly #waiting = new TurnoverMap<Waiting>();
  readonly #underWay = new Map<string, number>();
  #allUnderWay = 0;
  #entered = 0;
  #begunInLoop = 0;
  readonly #onEmpty: () => void;

  /** `onEmpty` is called when the last one has left. */
  constructor(env: Env, bounds: LineBounds, onEmpty: () => void = () => {}) {
    this.#env = env;
    this.#bounds = bounds;
    this.#onEmpty = onEmpty;
  }

  /** How many wait for their turn. */
  get length(): number {
    let length = 0;
    for (const [, { begun, fresh }] of this.#waiting) length += begun.size + fresh.size;
    return length;
  }

  /** How many have their turn. */
  get underWay(): number {
    return this.#allUnderWay;
  }

  /** A place for somebody who will come for turns; nobody stands there yet. */
  place(tenant: string): Place {
    return new Place(this, tenant);
  }

  /** For places alone. */
  enter(place: Place, begun: boolean): void {
    let waiting = this.#waiting.get(place.tenant);
    if (!waiting) {
      waiting = { begun: new TurnoverMap(), fresh: new TurnoverMap() };
      this.#waiting.set(place.tenant, waiting);
    }
    place.number = String(this.#entered++);
    (begun ? waiting.begun : waiting.fresh).set(place.number, place);
    this.#letIn();
  }

  /** For places alone. */
  giveUp(place: Place): void {
    const waiting = this.#waiting.get(place.tenant);
    if (waiting) this.#take(place.tenant, waiting, place);
    this.#tellIfEmpty();
  }

  /** For places alone. */
  done(tenant: string): void {
    const left = (this.#underWay.get(tenant) ?? 1) - 1;
    if (left > 0) this.#underWay.set(tenant, left);
    else this.#underWay.delete(tenant);
    this.#allUnderWay--;
    this.#letIn();
    this.#tellIfEmpty();
  }

  #tellIfEmpty(): void {
    if (this.#allUnderWay === 0 && this.#waiting.size === 0) this.#onEmpty();
  }

  #letIn(): void {
    while (this.#begunInLoop < this.#bounds.perLoop) {
      const place = this.#next();
      if (place === undefined) return;
      if (this.#begunInLoop++ === 0)
        this.#env.defer(() => {
          this.#begunInLoop = 0;
          this.#letIn();
        });
      this.#allUnderWay++;
      this.#underWay.set(place.tenant, (this.#underWay.get(place.tenant) ?? 0) + 1);
      place.onTurn();
    }
  }

  #next(): Place | undefined {
    const { atOnce, oneEach } = this.#bounds;
    const isFull = this.#allUnderWay >= atOnce;
    if (isFull && !oneEach) return;
    for (const [tenant, waiting] of this.#waiting) {
      if (isFull && this.#underWay.has(tenant)) continue;
      const [first] = waiting.begun.size > 0 ? waiting.begun : waiting.fresh;
      if (first === undefined) continue;
      const [, place] = first;
      this.#take(tenant, waiting, place);
      // Behind all other tenants.
      if (this.#waiting.take(tenant)) this.#waiting.set(tenant, waiting);
      return place;
    }
    return;
  }

  #take(tenant: string, waiting: Waiting, place: Place): void {
    waiting.begun.take(place.number);
    waiting.fresh.take(place.number);
    if (waiting.begun.size + waiting.fresh.size === 0) this.#waiting.take(tenant);
  }
}

/** Somebody's place in a line, for one turn after the other. */
export class Place {
  readonly tenant: string;
  readonly #line: FairLine;
  /** For the line: what it is known by while it waits. */
  number = "";
  /** Whether it has its turn. */
  hasTurn = false;
  #hasBegun = false;
  #given: ((isTurn: boolean) => void) | null = null;

  constructor(line: FairLine, tenant: string) {
    this.#line = line;
    this.tenant = tenant;
  }

  /** Ends the turn before, and resolves when the next has come: with false when the place was left meanwhile. */
  turn(): Promise<boolean> {
    this.#end();
    return new Promise((resolve) => {
      this.#given = resolve;
      this.#line.enter(this, this.#hasBegun);
    });
  }

  /** Ends the turn, or gives up waiting for it. */
  leave(): void {
    const given = this.#given;
    this.#given = null;
    if (given) {
      this.#line.giveUp(this);
      given(false);
    }
    this.#end();
  }

  /** For the line: it is this one's turn. */
  onTurn(): void {
    const given = this.#given;
    this.#given = null;
    this.#hasBegun = true;
    this.hasTurn = true;
    given?.(true);
  }

  #end(): void {
    if (!this.hasTurn) return;
    this.hasTurn = false;
    this.#line.done(this.tenant);
  }
}
