import type { Bus, Delivery } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { type Cell, idOf, invoke, isIdle, isOverdue, newCell } from "./cell.ts";
import { CellContext, type CellOwner } from "./cell-context.ts";
import { Cells } from "./cells.ts";
import { CrashHistory } from "./crash-history.ts";
import type { ActorContext, AnyActorDefinition } from "./define.ts";
import { cellsMax, IdleSweep } from "./idle-sweep.ts";

// The actors of one node. A message finds its actor by kind and key; an actor that is not in memory is loaded first, and for one that
// lives on another node the answer is where. What a handler throws decides what happens: a SvcError is told to the asker and the
// state stays; anything else is a crash, after which the state is dropped and loaded again for the next message.

/** What a host is made of. */
export interface HostOptions {
  readonly env: Env;
  readonly bus: Bus;
  readonly deps: unknown;
  readonly definitions: readonly AnyActorDefinition[];
  /** Told of every crash. */
  readonly onCrash: (kind: string, key: string, error: unknown) => void;
}

/** The actors of one node: loads them, gives them their messages one at a time, and lets idle ones leave memory. */
export class ActorHost {
  readonly #env: Env;
  readonly #bus: Bus;
  readonly #deps: unknown;
  readonly #definitions = new Map<string, AnyActorDefinition>();
  readonly #onCrash: HostOptions["onCrash"];
  readonly #cells = new Cells();
  readonly #crashes = new CrashHistory();
  readonly #sweep: IdleSweep;
  readonly #owner: CellOwner = {
    drop: (cell) => this.#drop(cell),
    leave: (cell) => {
      cell.isLeaving = true;
      this.#letGo(cell);
    },
    crash: (cell, context, error) => this.#crash(cell, context, error),
  };

  constructor(options: HostOptions) {
    this.#env = options.env;
    this.#bus = options.bus;
    this.#deps = options.deps;
    this.#onCrash = options.onCrash;
    for (const definition of options.definitions) this.#definitions.set(definition.kind, definition);
    options.bus.onPlaced(() => this.#release());
    this.#sweep = new IdleSweep(options.env, this.#cells);
  }

  /** Actors in memory. */
  get size(): number {
    return this.#cells.size;
  }

  /** Actors in memory that own work or have messages waiting. */
  busyCount(): number {
    let count = 0;
    for (const cell of this.#cells) if (!isIdle(cell)) count++;
    return count;
  }

  /** Takes a message for an actor of this node. */
  deliver(delivery: Delivery): void {
    const now = this.#env.monotonic();
    if (isOverdue(delivery, now)) return;
    const home = this.#bus.nodeOf(delivery);
    if (home !== this.#bus.node) {
      this.#bus.moved(delivery, home);
      return;
    }
    const definition = this.#definitions.get(delivery.kind);
    if (!definition?.on[delivery.type])
      this.#bus.refuse(delivery, new SvcError("internal_error", { subject: `${delivery.kind}.${delivery.type}` }));
    else this.#admit(this.#cellOf(definition, delivery.key), delivery, now);
  }

  /** No more sweeping; what is in memory stays until the thread ends. */
  close(): void {
    this.#sweep.close();
  }

  /**
   * Lets go of actors that live elsewhere from now on: what waits for them is asked there. What they are at they bring to an end, and
   * should they come back they are loaded anew.
   */
  #release(): void {
    for (const cell of this.#cells) {
      const home = this.#bus.nodeOf({ kind: cell.definition.kind, key: cell.key });
      if (home === this.#bus.node) continue;
      this.#cells.take(cell);
      for (let waiting = cell.mailbox.shift(); waiting; waiting = cell.mailbox.shift()) this.#bus.moved(waiting, home);
    }
  }

  #cellOf(definition: AnyActorDefinition, key: string): Cell {
    const known = this.#cells.get(definition.kind, key);
    if (known !== undefined) return known;
    const cell = newCell(definition, key);
    this.#cells.add(cell);
    return cell;
  }

  /** Handles a message at once where it may run beside another one; else it waits its turn, if there is room. */
  #admit(cell: Cell, delivery: Delivery, now: number): void {
    const { definition, mailbox } = cell;
    cell.lastUsed = now;
    const isReserved = definition.reserved.includes(delivery.type);
    const hasRoom = isReserved || cell.interleaved < definition.mailboxLimit;
    const isBeside = cell.phase === "ready" && cell.busy && definition.interleaves.includes(delivery.type);
    if (isBeside && hasRoom) this.#interleave(cell, delivery);
    else if (mailbox.push(delivery, isReserved)) this.#pump(cell);
    else this.#bus.refuse(delivery, new SvcError("mailbox_full"));
  }

  /** Handles what waits, as far as it can without waiting itself. */
  #pump(cell: Cell): void {
    while (!cell.busy && cell.mailbox.size > 0) {
      if (cell.phase === "loading") return;
      if (cell.phase === "empty") {
        if (this.#crashes.size > 0 && this.#crashes.isLooping(idOf(cell), this.#env.monotonic()))
          this.#refuseWaiting(cell, new SvcError("actor_lost"));
        else this.#load(cell);
        continue;
      }
      const delivery = cell.mailbox.shift() as Delivery;
      if (!isOverdue(delivery, this.#env.monotonic())) this.#handle(cell, delivery);
    }
    this.#letGo(cell);
  }

  /** Has an actor leave memory that need not stay, if it is idle. */
  #letGo(cell: Cell): void {
    const leaves = cell.isLeaving || (cell.definition.leavesCrowds === true && this.#cells.size > cellsMax);
    if (leaves && isIdle(cell)) this.#cells.take(cell);
  }

  #load(cell: Cell): void {
    cell.phase = "loading";
    const context: ActorContext<unknown> = new CellContext(cell, this.#env, this.#bus, this.#deps, this.#owner);
    cell.context = context;
    try {
      const state = cell.definition.load(context as ActorContext<never>);
      if (!(state instanceof Promise)) {
        this.#loaded(cell, state);
        return;
      }
      state.then(
        (value) => {
          this.#loaded(cell, value);
          this.#pump(cell);
        },
        (error: unknown) => this.#loadFailed(cell, error),
      );
    } catch (error) {
      this.#loadFailed(cell, error);
    }
  }

  #loaded(cell: Cell, state: unknown): void {
    cell.state = state;
    cell.phase = "ready";
  }

  /** Everybody who waits is told; the next message tries again. */
  #loadFailed(cell: Cell, error: unknown): void {
    cell.phase = "empty";
    if (!(error instanceof SvcError)) this.#noteCrash(cell, error);
    this.#refuseWaiting(cell, SvcError.from(error));
    this.#letGo(cell);
  }

  #refuseWaiting(cell: Cell, refusal: SvcError): void {
    for (let waiting = cell.mailbox.shift(); waiting; waiting = cell.mailbox.shift())
      this.#bus.refuse(waiting, refusal);
  }

  #handle(cell: Cell, delivery: Delivery): void {
    const { context } = cell;
    cell.busy = true;
    try {
      const answer = invoke(cell, delivery);
      if (!(answer instanceof Promise)) {
        cell.busy = false;
        this.#bus.reply(delivery, answer);
        return;
      }
      answer.then(
        (value: unknown) => {
          cell.busy = false;
          this.#bus.reply(delivery, value);
          this.#pump(cell);
        },
        (error: unknown) => {
          cell.busy = false;
          this.#failed(cell, context, delivery, error);
          this.#pump(cell);
        },
      );
    } catch (error) {
      cell.busy = false;
      this.#failed(cell, context, delivery, error);
    }
  }

  #interleave(cell: Cell, delivery: Delivery): void {
    const { context } = cell;
    try {
      const answer = invoke(cell, delivery);
      if (!(answer instanceof Promise)) {
        this.#bus.reply(delivery, answer);
        return;
      }
      cell.interleaved++;
      answer.then(
        (value: unknown) => {
          cell.interleaved--;
          this.#bus.reply(delivery, value);
          this.#letGo(cell);
        },
        (error: unknown) => {
          cell.interleaved--;
          this.#failed(cell, context, delivery, error);
          this.#letGo(cell);
        },
      );
    } catch (error) {
      this.#failed(cell, context, delivery, error);
    }
  }

  #failed(cell: Cell, context: Cell["context"], delivery: Delivery, error: unknown): void {
    this.#bus.refuse(delivery, SvcError.from(error));
    if (!(error instanceof SvcError)) this.#crash(cell, context, error);
  }

  /** `context` is that of the state in which the crash happened; another state that has taken its place stays. */
  #crash(cell: Cell, context: Cell["context"], error: unknown): void {
    this.#noteCrash(cell, error);
    if (cell.phase !== "ready" || cell.context !== context) return;
    const state = cell.state;
    this.#drop(cell);
    try {
      cell.definition.crashed(state as never, context as ActorContext<never>, error);
    } catch (second) {
      this.#onCrash(cell.definition.kind, cell.key, second);
    }
  }

  #drop(cell: Cell): void {
    if (cell.phase !== "ready") return;
    cell.phase = "empty";
    cell.state = undefined;
  }

  #noteCrash(cell: Cell, error: unknown): void {
    this.#onCrash(cell.definition.kind, cell.key, error);
    this.#crashes.note(idOf(cell), this.#env.monotonic());
  }
}
