import type { Bus, Delivery } from "../../bus/bus.ts";
import type { Env, Timer } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { Mailbox } from "../../bus/mailbox.ts";
import type { ActorContext, AnyActorDefinition } from "./define.ts";

// The actors of one node. A message finds its actor by kind and key; an actor that is not in memory is loaded first. What a
// handler throws decides what happens: a SvcError is told to the asker and the state stays; anything else is a crash, after
// which the state is dropped and loaded again for the next message.

/** How often the host looks for actors that can leave memory, and how many it looks at each time. */
const sweepMs = 1_000;
const sweepCells = 2_000;
/** Beyond this many actors in memory, idle ones leave at once. */
const cellsMax = 10_000;
/** This many crashes within the window, and the actor is refused until the window is over. */
const crashesMax = 5;
const crashWindowMs = 10_000;

interface Cell {
  readonly definition: AnyActorDefinition;
  readonly key: string;
  readonly mailbox: Mailbox<Delivery>;
  readonly context: ActorContext<unknown>;
  phase: "empty" | "loading" | "ready";
  state: unknown;
  /** A handler is running that others must wait for. */
  busy: boolean;
  /** Interleaving handlers that are waiting for something. */
  interleaved: number;
  lastUsed: number;
}

export interface HostOptions {
  readonly env: Env;
  readonly bus: Bus;
  readonly deps: unknown;
  readonly definitions: readonly AnyActorDefinition[];
  /** Told of every crash. */
  readonly onCrash: (kind: string, key: string, error: unknown) => void;
}

export class ActorHost {
  readonly #env: Env;
  readonly #bus: Bus;
  readonly #deps: unknown;
  readonly #definitions = new Map<string, AnyActorDefinition>();
  readonly #onCrash: HostOptions["onCrash"];
  readonly #cells = new Map<string, Cell>();
  readonly #crashes = new Map<string, number[]>();
  #sweepTimer: Timer | null = null;
  #sweepAt: Iterator<[string, Cell]> | null = null;
  #closed = false;

  constructor(options: HostOptions) {
    this.#env = options.env;
    this.#bus = options.bus;
    this.#deps = options.deps;
    this.#onCrash = options.onCrash;
    for (const definition of options.definitions) this.#definitions.set(definition.kind, definition);
    this.#sweepLater();
  }

  /** Actors in memory. */
  get size(): number {
    return this.#cells.size;
  }

  /** Actors in memory that own work or have messages waiting. */
  busyCount(): number {
    let count = 0;
    for (const cell of this.#cells.values()) if (!isIdle(cell)) count++;
    return count;
  }

  /** Takes a message for an actor of this node. */
  deliver(delivery: Delivery): void {
    const definition = this.#definitions.get(delivery.kind);
    if (!definition?.on[delivery.type])
      return this.#bus.refuse(delivery, new SvcError("internal_error", { subject: `${delivery.kind}.${delivery.type}` }));
    const id = `${delivery.kind}/${delivery.key}`;
    if (this.#crashes.size > 0 && this.#isCrashLooping(id)) return this.#bus.refuse(delivery, new SvcError("actor_lost"));
    let cell = this.#cells.get(id);
    if (!cell) {
      cell = this.#newCell(definition, delivery.key);
      this.#cells.set(id, cell);
    }
    cell.lastUsed = this.#env.now();
    if (cell.phase === "ready" && cell.busy && definition.interleaves.includes(delivery.type)) {
      this.#interleave(cell, delivery);
      return;
    }
    if (!cell.mailbox.push(delivery, definition.reserved.includes(delivery.type)))
      return this.#bus.refuse(delivery, new SvcError("mailbox_full"));
    this.#pump(cell);
  }

  /** No more sweeping; what is in memory stays until the thread ends. */
  close(): void {
    this.#closed = true;
    this.#sweepTimer?.cancel();
  }

  #newCell(definition: AnyActorDefinition, key: string): Cell {
    const cell: Cell = {
      definition,
      key,
      mailbox: new Mailbox(definition.mailboxLimit),
      phase: "empty",
      state: undefined,
      busy: false,
      interleaved: 0,
      lastUsed: 0,
      context: {
        key,
        env: this.#env,
        bus: this.#bus,
        deps: this.#deps,
        discard: () => this.#drop(cell),
        crash: (error) => this.#crash(cell, error),
      },
    };
    return cell;
  }

  /** Handles what waits, as far as it can without waiting itself. */
  #pump(cell: Cell): void {
    while (!cell.busy && cell.mailbox.size > 0) {
      if (cell.phase === "loading") return;
      if (cell.phase === "empty") {
        this.#load(cell);
        continue;
      }
      const delivery = cell.mailbox.shift() as Delivery;
      // Nobody waits for the answer any more, and the asker knows that the outcome is unknown.
      if (delivery.deadline > 0 && delivery.deadline < this.#env.now()) continue;
      this.#handle(cell, delivery);
    }
  }

  #load(cell: Cell): void {
    cell.phase = "loading";
    try {
      const state = cell.definition.load(cell.context as ActorContext<never>);
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
    const refusal = SvcError.from(error);
    for (let waiting = cell.mailbox.shift(); waiting; waiting = cell.mailbox.shift()) this.#bus.refuse(waiting, refusal);
  }

  #handle(cell: Cell, delivery: Delivery): void {
    cell.busy = true;
    try {
      const answer = this.#invoke(cell, delivery);
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
          this.#failed(cell, delivery, error);
          this.#pump(cell);
        },
      );
    } catch (error) {
      cell.busy = false;
      this.#failed(cell, delivery, error);
    }
  }

  #interleave(cell: Cell, delivery: Delivery): void {
    try {
      const answer = this.#invoke(cell, delivery);
      if (!(answer instanceof Promise)) return this.#bus.reply(delivery, answer);
      cell.interleaved++;
      answer.then(
        (value: unknown) => {
          cell.interleaved--;
          this.#bus.reply(delivery, value);
        },
        (error: unknown) => {
          cell.interleaved--;
          this.#failed(cell, delivery, error);
        },
      );
    } catch (error) {
      this.#failed(cell, delivery, error);
    }
  }

  #invoke(cell: Cell, delivery: Delivery): unknown {
    const handler = cell.definition.on[delivery.type];
    return handler?.(cell.state as never, delivery.body as never, cell.context as ActorContext<never>);
  }

  #failed(cell: Cell, delivery: Delivery, error: unknown): void {
    this.#bus.refuse(delivery, SvcError.from(error));
    if (!(error instanceof SvcError)) this.#crash(cell, error);
  }

  #crash(cell: Cell, error: unknown): void {
    this.#noteCrash(cell, error);
    if (cell.phase !== "ready") return;
    const state = cell.state;
    this.#drop(cell);
    try {
      cell.definition.crashed(state as never, cell.context as ActorContext<never>, error);
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
    const id = `${cell.definition.kind}/${cell.key}`;
    const recent = (this.#crashes.get(id) ?? []).filter((at) => at > this.#env.now() - crashWindowMs);
    recent.push(this.#env.now());
    this.#crashes.set(id, recent);
  }

  #isCrashLooping(id: string): boolean {
    const crashes = this.#crashes.get(id);
    if (!crashes) return false;
    const last = crashes.at(-1) ?? 0;
    if (last <= this.#env.now() - crashWindowMs) {
      this.#crashes.delete(id);
      return false;
    }
    return crashes.length >= crashesMax;
  }

  #sweepLater(): void {
    this.#sweepTimer = this.#env.timer(sweepMs, () => {
      this.#sweep();
      if (!this.#closed) this.#sweepLater();
    });
  }

  /** Looks at some actors each time and goes on from there the next time, so that many actors cost no long pause. */
  #sweep(): void {
    const now = this.#env.now();
    const crowded = this.#cells.size > cellsMax;
    this.#sweepAt ??= this.#cells.entries();
    for (let looked = 0; looked < (crowded ? cellsMax : sweepCells); looked++) {
      const next = this.#sweepAt.next();
      if (next.done) {
        this.#sweepAt = null;
        return;
      }
      const [id, cell] = next.value;
      const unused = now - cell.lastUsed;
      if (isIdle(cell) && (crowded || unused >= cell.definition.passivateAfterMs)) this.#cells.delete(id);
    }
  }
}

function isIdle(cell: Cell): boolean {
  if (cell.busy || cell.interleaved > 0 || cell.mailbox.size > 0 || cell.phase === "loading") return false;
  return cell.phase === "empty" || cell.definition.idle(cell.state as never);
}
