import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import type { Cell } from "./cell.ts";
import type { ActorContext, Neighbours } from "./define.ts";

/** The host's operations for an actor. */
export interface CellOwner extends Neighbours {
  drop(cell: Cell): void;
  leave(cell: Cell): void;
  crash(cell: Cell, context: ActorContext<unknown>, error: unknown): void;
}

/**
 * The context of one state of a cell. After a new state has replaced it, its calls have no effect. Every actor has one, so it is
 * small.
 */
export class CellContext implements ActorContext<unknown> {
  readonly key: string;
  readonly env: Env;
  readonly bus: Bus;
  readonly deps: unknown;
  readonly #cell: Cell;
  readonly #owner: CellOwner;

  constructor(cell: Cell, env: Env, bus: Bus, deps: unknown, owner: CellOwner) {
    this.key = cell.key;
    this.env = env;
    this.bus = bus;
    this.deps = deps;
    this.#cell = cell;
    this.#owner = owner;
  }

  discard(): void {
    if (this.#cell.context === this) this.#owner.drop(this.#cell);
  }

  leave(): void {
    if (this.#cell.context === this) this.#owner.leave(this.#cell);
  }

  crash(error: unknown): void {
    this.#owner.crash(this.#cell, this, error);
  }

  get neighbours(): Neighbours {
    return this.#owner;
  }
}
