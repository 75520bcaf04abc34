import type { Env } from "../../bus/env.ts";
import { SlotMap } from "../slot-map.ts";

// A queue for work that would hold up everybody if it were done at once. Tenants take turns, so that the crowd of one is no wait
// for another; a tenant's own go in the order in which they came, and those that have begun before those that have not.

/** How much goes on at a time. */
export interface QueueBounds {
  /** Turns that may be under way at a time. */
  readonly atOnce: number;
  /** Turns that begin before the event loop has gone on to other things. */
  readonly perLoop: number;
  /** Whether a tenant that has nothing under way may have a turn beyond `atOnce`. */
  readonly oneEach: boolean;
}

/** Those of a tenant that wait, by their numbers and in the order of those. */
interface Waiting {
  readonly begun: SlotMap<Ticket>;
  readonly fresh: SlotMap<Ticket>;
}

/** Says whose turn it is. */
export class FairQueue {
  readonly #env: Env;
  readonly #bounds: QueueBounds;
  /** Tenants in the order of their next turn. */
  readonly #waiting = new SlotMap<Waiting>();
  readonly #underWay = new Map<string, number>();
  #allUnderWay = 0;
  #entered = 0;
  #begunInLoop = 0;
  readonly #onEmpty: () => void;

  /** `onEmpty` is called when the last one has left. */
  constructor(env: Env, bounds: QueueBounds, onEmpty: () => void = () => {}) {
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

  /** A ticket for somebody who will come for turns; nobody stands there yet. */
  ticket(tenant: string): Ticket {
    return new Ticket(this, tenant);
  }

  /** For tickets alone. */
  enter(ticket: Ticket, begun: boolean): void {
    let waiting = this.#waiting.get(ticket.tenant);
    if (!waiting) {
      waiting = { begun: new SlotMap(), fresh: new SlotMap() };
      this.#waiting.set(ticket.tenant, waiting);
    }
    ticket.number = String(this.#entered++);
    (begun ? waiting.begun : waiting.fresh).set(ticket.number, ticket);
    this.#letIn();
  }

  /** For tickets alone. */
  giveUp(ticket: Ticket): void {
    const waiting = this.#waiting.get(ticket.tenant);
    if (waiting) this.#take(ticket.tenant, waiting, ticket);
    this.#tellIfEmpty();
  }

  /** For tickets alone. */
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
      const ticket = this.#next();
      if (ticket === undefined) return;
      if (this.#begunInLoop++ === 0)
        this.#env.defer(() => {
          this.#begunInLoop = 0;
          this.#letIn();
        });
      this.#allUnderWay++;
      this.#underWay.set(ticket.tenant, (this.#underWay.get(ticket.tenant) ?? 0) + 1);
      ticket.onTurn();
    }
  }

  #next(): Ticket | undefined {
    const { atOnce, oneEach } = this.#bounds;
    const isFull = this.#allUnderWay >= atOnce;
    if (isFull && !oneEach) return;
    for (const [tenant, waiting] of this.#waiting) {
      if (isFull && this.#underWay.has(tenant)) continue;
      const [first] = waiting.begun.size > 0 ? waiting.begun : waiting.fresh;
      if (first === undefined) continue;
      const [, ticket] = first;
      this.#take(tenant, waiting, ticket);
      // Behind all other tenants.
      if (this.#waiting.take(tenant)) this.#waiting.set(tenant, waiting);
      return ticket;
    }
    return;
  }

  #take(tenant: string, waiting: Waiting, ticket: Ticket): void {
    waiting.begun.take(ticket.number);
    waiting.fresh.take(ticket.number);
    if (waiting.begun.size + waiting.fresh.size === 0) this.#waiting.take(tenant);
  }
}

/** Somebody's ticket in a queue, for one turn after the other. */
export class Ticket {
  readonly tenant: string;
  readonly #queue: FairQueue;
  /** For the queue: what it is known by while it waits. */
  number = "";
  /** Whether it has its turn. */
  hasTurn = false;
  #hasBegun = false;
  #given: ((isTurn: boolean) => void) | null = null;

  constructor(queue: FairQueue, tenant: string) {
    this.#queue = queue;
    this.tenant = tenant;
  }

  /** Ends the turn before, and resolves when the next has come: with false when the ticket was left meanwhile. */
  turn(): Promise<boolean> {
    this.#end();
    return new Promise((resolve) => {
      this.#given = resolve;
      this.#queue.enter(this, this.#hasBegun);
    });
  }

  /** Ends the turn, or gives up waiting for it. */
  leave(): void {
    const given = this.#given;
    this.#given = null;
    if (given) {
      this.#queue.giveUp(this);
      given(false);
    }
    this.#end();
  }

  /** For the queue: it is this one's turn. */
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
    this.#queue.done(this.tenant);
  }
}
