import type { Env } from "../bus/env.ts";
import { SvcError } from "../bus/errors.ts";
import { FairQueue, type Ticket } from "../bus/queues/fair-queue.ts";

/** Requests that are answered at a time: each holds some megabytes. A tenant that has none may have one beyond. */
const bounds = { atOnce: 8, perLoop: 2, oneEach: true } as const;
/** Requests of one tenant, those that wait among them. */
const perTenantMax = 64;

/** What is known of the vectors of a route. */
export interface KnownVectors {
  /** Of those whose dimensions nobody has chosen; null where all were chosen so far. */
  readonly dimensions: number | null;
  /** Whether the provider sends bytes, and not digits. */
  readonly isBinary: boolean;
}

/** The requests for vectors on this http thread, which tenants take turns with, and what is known of the vectors of each route. */
export class EmbeddingQueue {
  /** By the route's id. */
  readonly known = new Map<string, KnownVectors>();
  readonly #queue: FairQueue;
  readonly #counts = new Map<string, number>();

  constructor(env: Env) {
    this.#queue = new FairQueue(env, bounds);
  }

  /** A ticket in the queue. Refuses with mailbox_full. */
  enter(tenant: string): Ticket {
    const count = this.#counts.get(tenant) ?? 0;
    if (count >= perTenantMax) throw new SvcError("mailbox_full");
    this.#counts.set(tenant, count + 1);
    return this.#queue.ticket(tenant);
  }

  /** Whoever has entered leaves, once. */
  leave(ticket: Ticket): void {
    ticket.leave();
    const left = (this.#counts.get(ticket.tenant) ?? 1) - 1;
    if (left > 0) this.#counts.set(ticket.tenant, left);
    else this.#counts.delete(ticket.tenant);
  }
}
