import type { Env } from "../../bus/env.ts";
import { SlotMap } from "../slot-map.ts";

// A queue for work that would block a thread if all of it ran at once. Tenants take turns, so that many tickets of one
// tenant do not delay the others. The tickets of a tenant are served in order of arrival, started work before new work.

/** Limits of a queue. */
export interface QueueBounds {
  /** Max concurrent turns. */
  readonly atOnce: number;
  /** Max turns that start in one event-loop turn. */
  readonly perLoop: number;
  /** True to allow a tenant without a current turn one turn beyond `atOnce`. */
  readonly oneEach: boolean;
}

/** The waiting tickets of a tenant, by number and in that order. */
interface Waiting {
  readonly begun: SlotMap<Ticket>;
  readonly fresh: SlotMap<Ticket>;
}

/** Decides which ticket has the next turn. */
export class FairQueue {
  readonly #env: Env;
  readonly #bounds: QueueBounds;
  /** Tenants in the order of their next turns. */
  readonly #waiting = new SlotMap<Waiting>();
  readonly #underWay = new Map<string, number>();
  #allUnderWay = 0;
  #entered = 0;
  #begunInLoop = 0;
  readonly #onEmpty: () => void;

  /** `onEmpty` is called when no ticket waits or has a turn. */
  constructor(env: Env, bounds: QueueBounds, onEmpty: () => void = () => {}) {
    this.#env = env;
    this.#bounds = bounds;
    this.#onEmpty = onEmpty;
  }

  /** Number of waiting tickets. */
  get length(): number {
    let length = 0;
    for (const [, { begun, fresh }] of this.#waiting) length += begun.size + fresh.size;
    return length;
  }

  /** Number of tickets that have their turn. */
  get underWay(): number {
    return this.#allUnderWay;
  }

  /** Returns a new ticket, which is not in the queue yet. */
  ticket(tenant: string): Ticket {
    return new Ticket(this, tenant);
  }

  /** Adds a waiting ticket. Called by Ticket only. */
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

  /** Removes a waiting ticket. Called by Ticket only. */
  giveUp(ticket: Ticket): void {
    const waiting = this.#waiting.get(ticket.tenant);
    if (waiting) this.#take(ticket.tenant, waiting, ticket);
    this.#tellIfEmpty();
  }

  /** Ends a turn. Called by Ticket only. */
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
      // Moves the tenant to the end of the order.
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

/** A participant in a queue that takes one turn after another. */
export class Ticket {
  readonly tenant: string;
  readonly #queue: FairQueue;
  /** Key in the queue while the ticket waits. */
  number = "";
  /** True during a turn. */
  hasTurn = false;
  #hasBegun = false;
  #given: ((isTurn: boolean) => void) | null = null;

  constructor(queue: FairQueue, tenant: string) {
    this.#queue = queue;
    this.tenant = tenant;
  }

  /** Ends the current turn and waits for the next one. Resolves with false if `leave` was called before it came. */
  turn(): Promise<boolean> {
    this.#end();
    return new Promise((resolve) => {
      this.#given = resolve;
      this.#queue.enter(this, this.#hasBegun);
    });
  }

  /** Ends the turn, or stops waiting for one. */
  leave(): void {
    const given = this.#given;
    this.#given = null;
    if (given) {
      this.#queue.giveUp(this);
      given(false);
    }
    this.#end();
  }

  /** Starts the turn. Called by FairQueue only. */
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
