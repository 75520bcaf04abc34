import type { Bus, Delivery } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { type NodeId, splitNodeId } from "../../bus/protocol/node-id.ts";
import { BorrowedThreads, type ThreadLoan } from "./borrowed-threads.ts";
import { type Cell, idOf, invoke, isAtWork, isIdle, isOverdue, newCell } from "./cell.ts";
import { CellContext, type CellOwner } from "./cell-context.ts";
import { Cells } from "./cells.ts";
import { CrashHistory } from "./crash-history.ts";
import type { ActorContext, AnyActorDefinition } from "./define.ts";
import { cellsMax, IdleSweep } from "./idle-sweep.ts";
import { LivesElsewhere } from "./lives-elsewhere.ts";

// The actors of one node. Messages find their actor by kind and key; an actor that is not in memory is loaded first. For an
// actor of another node, the host replies with that node. A SvcError from a handler is sent to the caller and the state stays.
// Any other error is a crash: the state is dropped and loaded again for the next message.

/** Options of a host. */
export interface HostOptions {
  readonly env: Env;
  readonly bus: Bus;
  readonly deps: unknown;
  readonly definitions: readonly AnyActorDefinition[];
  /** Called for every crash. */
  readonly onCrash: (kind: string, key: string, error: unknown) => void;
}

/** Loads the actors of one node, passes them their messages, and removes idle ones from memory. */
export class ActorHost {
  readonly #env: Env;
  readonly #bus: Bus;
  readonly #deps: unknown;
  readonly #definitions = new Map<string, AnyActorDefinition>();
  readonly #onCrash: HostOptions["onCrash"];
  readonly #cells = new Cells();
  readonly #crashes = new CrashHistory();
  readonly #sweep: IdleSweep;
  readonly #borrowed: BorrowedThreads;
  #refusesOtherHosts = false;
  readonly #owner: CellOwner = {
    drop: (cell) => this.#drop(cell),
    leave: (cell) => {
      cell.isLeaving = true;
      this.#letGo(cell);
    },
    crash: (cell, context, error) => this.#crash(cell, context, error),
    holds: (kind, key) => this.#cells.get(kind, key) !== undefined,
    borrow: (loan) => this.#borrowed.borrow(loan),
    settled: (thread) => this.#borrowed.settled(thread),
    lend: (loan, to) => this.#lend(loan, to),
    returned: (thread) => this.#borrowed.returned(thread),
  };

  constructor(options: HostOptions) {
    this.#env = options.env;
    this.#bus = options.bus;
    this.#deps = options.deps;
    this.#onCrash = options.onCrash;
    for (const definition of options.definitions) this.#definitions.set(definition.kind, definition);
    options.bus.onPlaced(() => this.#release());
    this.#borrowed = new BorrowedThreads(options.bus, options.env, this.#owner.holds);
    this.#sweep = new IdleSweep(options.env, this.#cells, (cell) => this.#remove(cell));
  }

  /** Number of actors in memory. */
  get size(): number {
    return this.#cells.size;
  }

  /** Number of actors with work or queued messages. */
  busyCount(): number {
    let count = 0;
    for (const cell of this.#cells) if (!isIdle(cell)) count++;
    return count;
  }

  /**
   * Refuses asks of other hosts from now on. Until they know that this host leaves, they send turns here, and a turn that began while the
   * store closes would leave its message in the log without an answer.
   */
  refuseOtherHosts(): void {
    this.#refusesOtherHosts = true;
  }

  /** Delivers a message to an actor of this node. */
  deliver(delivery: Delivery): void {
    const now = this.#env.monotonic();
    if (isOverdue(delivery, now)) return;
    if (this.#refusesOtherHosts && isOfOtherHost(delivery, this.#bus.node)) {
      this.#bus.refuse(delivery, new SvcError("actor_lost"));
      return;
    }
    const { kind, key, type } = delivery;
    const definition = this.#definitions.get(kind);
    if (!definition?.on[type]) {
      this.#bus.refuse(delivery, new SvcError("internal_error", { subject: `${kind}.${type}` }));
      return;
    }
    const known = this.#cells.get(kind, key);
    // An actor that stays until its run has ended is here, though its home is elsewhere.
    const home = known === undefined ? this.#borrowed.nodeOf(delivery) : this.#bus.node;
    if (home !== this.#bus.node) this.#bus.moved(delivery, home);
    else this.#admit(known ?? this.#newCell(definition, key), delivery, now);
  }

  /** Stops the idle sweep; actors stay in memory until the thread ends. */
  close(): void {
    this.#sweep.close();
  }

  /**
   * Removes actors that have moved to other nodes. If they move back, they are loaded again. An actor that handles a message, or
   * owns work such as a live run, stays and takes its messages until it is idle, because two copies would work at the same time.
   */
  #release(): void {
    for (const cell of this.#cells) {
      const home = this.#bus.homeOf({ kind: cell.definition.kind, key: cell.key });
      if (home === this.#bus.node) continue;
      cell.isLeaving = true;
      if (cell.phase === "ready" && isAtWork(cell)) {
        if (!cell.stays) this.#bus.stays({ kind: cell.definition.kind, key: cell.key });
        cell.stays = true;
        continue;
      }
      this.#remove(cell);
      for (let waiting = cell.mailbox.shift(); waiting; waiting = cell.mailbox.shift()) this.#bus.moved(waiting, home);
    }
  }

  /** Lets the actors of an idle thread go to another node. Returns the subscribers of the thread; null if an actor is busy. */
  #lend({ thread, run }: ThreadLoan, to: NodeId): readonly NodeId[] | null {
    const places = [{ kind: "run", key: run }, ...["thread", "workspace"].map((kind) => ({ kind, key: thread }))];
    const cells = places.map(({ kind, key }) => this.#cells.get(kind, key)).filter((cell) => cell !== undefined);
    if (!cells.every(isIdle)) return null;
    for (const cell of cells) this.#remove(cell);
    return this.#borrowed.lend(thread, to);
  }

  #newCell(definition: AnyActorDefinition, key: string): Cell {
    const cell = newCell(definition, key);
    // A borrowed actor leaves as soon as it is idle.
    cell.isLeaving = this.#borrowed.isBorrowed({ kind: definition.kind, key });
    this.#cells.add(cell);
    return cell;
  }

  /** Handles a message at once if it may interleave; otherwise queues it, if there is room. */
  #admit(cell: Cell, delivery: Delivery, now: number): void {
    const { definition, mailbox } = cell;
    cell.lastUsed = now;
    const isReserved = definition.reserved.includes(delivery.type);
    const hasRoom = isReserved || cell.interleaved < definition.mailboxLimit;
    const isBeside = isDetached(cell, delivery) || (cell.busy && definition.interleaves.includes(delivery.type));
    if (cell.phase === "ready" && isBeside && hasRoom) this.#interleave(cell, delivery);
    else if (mailbox.push(delivery, isReserved)) this.#pump(cell);
    else this.#bus.refuse(delivery, new SvcError("mailbox_full"));
  }

  /** Handles queued messages until one has to wait. */
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
      if (isOverdue(delivery, this.#env.monotonic())) continue;
      if (isDetached(cell, delivery) && cell.interleaved < cell.definition.mailboxLimit)
        this.#interleave(cell, delivery);
      else this.#handle(cell, delivery);
    }
    this.#letGo(cell);
  }

  /** Removes an idle actor from memory if it has asked to leave, or if memory is crowded and its kind allows it. */
  #letGo(cell: Cell): void {
    const leaves = cell.isLeaving || (cell.definition.leavesCrowds === true && this.#cells.size > cellsMax);
    if (leaves && isIdle(cell)) this.#remove(cell);
  }

  #remove(cell: Cell): void {
    const actor = { kind: cell.definition.kind, key: cell.key };
    this.#cells.take(cell);
    if (cell.stays) this.#bus.left(actor);
    cell.stays = false;
    this.#borrowed.left(actor);
  }

  #load(cell: Cell): void {
    cell.phase = "loading";
    const context: ActorContext<unknown> = new CellContext(cell, this.#env, this.#bus, this.#deps, this.#owner);
    cell.context = context;
    try {
      const state = cell.definition.load(context as ActorContext<never>, cell.mailbox.first?.type ?? "");
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

  /** Refuses all queued messages; the next message tries to load again. */
  #loadFailed(cell: Cell, error: unknown): void {
    cell.phase = "empty";
    if (error instanceof LivesElsewhere) {
      this.#remove(cell);
      for (let waiting = cell.mailbox.shift(); waiting; waiting = cell.mailbox.shift())
        this.#bus.moved(waiting, error.node);
      return;
    }
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

  /** `context` belongs to the state that crashed; a newer state stays. */
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

/** True if the handler of a message keeps no other message waiting. */
function isDetached({ definition: { detached = [] } }: Cell, { type }: Delivery): boolean {
  return detached.includes(type);
}

function isOfOtherHost({ from }: Delivery, here: NodeId): boolean {
  return from !== null && splitNodeId(from).host !== splitNodeId(here).host;
}
