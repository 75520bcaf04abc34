import type { Env } from "../bus/env.ts";
import { SvcError } from "../bus/errors.ts";
import { FairQueue, type Ticket } from "../bus/queues/fair-queue.ts";

/** Requests answered at once; each needs some megabytes. A tenant without one may exceed the limit by one. */
const bounds = { atOnce: 8, perLoop: 2, oneEach: true } as const;
/** Max requests of one tenant, including queued ones. */
const perTenantMax = 64;

/** Known properties of the vectors of a route. */
export interface KnownVectors {
  /** The route's default dimensions; null while all requests chose their own. */
  readonly dimensions: number | null;
  /** True if the provider sends binary vectors and not decimal numbers. */
  readonly isBinary: boolean;
}

/** The fair queue of embedding requests on this HTTP thread, and the known vector properties of each route. */
export class EmbeddingQueue {
  /** By route id. */
  readonly known = new Map<string, KnownVectors>();
  readonly #queue: FairQueue;
  readonly #counts = new Map<string, number>();

  constructor(env: Env) {
    this.#queue = new FairQueue(env, bounds);
  }

  /** Returns a ticket in the queue. Refuses with mailbox_full. */
  enter(tenant: string): Ticket {
    const count = this.#counts.get(tenant) ?? 0;
    if (count >= perTenantMax) throw new SvcError("mailbox_full");
    this.#counts.set(tenant, count + 1);
    return this.#queue.ticket(tenant);
  }

  /** Leaves the queue; call it once per ticket. */
  leave(ticket: Ticket): void {
    ticket.leave();
    const left = (this.#counts.get(ticket.tenant) ?? 1) - 1;
    if (left > 0) this.#counts.set(ticket.tenant, left);
    else this.#counts.delete(ticket.tenant);
  }
}
