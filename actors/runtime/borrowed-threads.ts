import { type AnyAddress, placedWith, runAddress, splitRunKey, threadAddress, topicOf } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import type { NodeId } from "../../bus/protocol/node-id.ts";

// A durable run works on a host with the duty `worker`. If the home of its thread is another host, the node of the worker
// borrows the thread for as long as the run works: the home drops it from memory, and its subscribers learn where it is. The
// store decides as after any move: the run row names its owner, and the log is fenced.

/** The key of a thread, and that of a run of it. */
export interface ThreadLoan {
  readonly thread: string;
  readonly run: string;
}

/** A home sends messages on for this long without asking the store, which names the owner of the run by then. */
const awayMs = 5_000;
/** A loan without a claim ends after this time. */
const heldMs = 60_000;
/** Max threads that a home remembers as lent. */
const awayMax = 10_000;

interface Loan {
  readonly run: string;
  readonly home: NodeId;
  /** True until the run has been taken or not. */
  isHeld: boolean;
  /** True once the home takes messages for the thread again. */
  isReturned: boolean;
}

/** The threads that a node has borrowed, and those that it has lent. */
export class BorrowedThreads {
  readonly #bus: Bus;
  readonly #env: Env;
  readonly #isHere: (kind: string, key: string) => boolean;
  readonly #borrowed = new Map<string, Loan>();
  readonly #lent = new Map<string, { readonly node: NodeId; readonly until: number }>();

  /** `isHere` is true of actors in memory. */
  constructor(bus: Bus, env: Env, isHere: (kind: string, key: string) => boolean) {
    this.#bus = bus;
    this.#env = env;
    this.#isHere = isHere;
    bus.onLost((node) => {
      for (const [key, { node: to }] of this.#lent) if (to === node) this.#lent.delete(key);
    });
  }

  /** Returns the node of an actor that is not in memory here. */
  nodeOf(actor: AnyAddress): NodeId {
    const home = this.#bus.homeOf(actor);
    const { size } = home === this.#bus.node ? this.#lent : this.#borrowed;
    if (size === 0) return home;
    const { kind, key } = placedWith(actor);
    if (kind !== "thread") return home;
    if (home !== this.#bus.node) return this.#isUsed(key) ? this.#bus.node : home;
    const lent = this.#lent.get(key);
    if (lent === undefined) return home;
    if (lent.until > this.#env.monotonic()) return lent.node;
    this.#lent.delete(key);
    return home;
  }

  /** True if the home of an actor in memory has lent it to this node. */
  isBorrowed(actor: AnyAddress): boolean {
    if (this.#borrowed.size === 0) return false;
    const { kind, key } = placedWith(actor);
    return kind === "thread" && this.#isUsed(key);
  }

  /** Takes a thread from its home to this node. Returns false if it is in use there. */
  async borrow({ thread, run }: ThreadLoan): Promise<boolean> {
    const { tenantId, suffix, runId } = splitRunKey(run);
    const actor = runAddress(tenantId, suffix, runId);
    const home = this.#bus.homeOf(actor);
    if (home === this.#bus.node) return true;
    const before = this.#borrowed.get(thread);
    if (before !== undefined && (before.run !== run || before.isHeld)) return before.run === run;
    // The run has left a moment ago and is due again.
    if (before !== undefined) this.#end(thread);
    const loan: Loan = { run, home, isHeld: true, isReturned: false };
    this.#borrowed.set(thread, loan);
    try {
      const asked = { thread, run, to: this.#bus.node };
      const { subscribers } = await this.#bus.ask({ kind: "node", key: home }, "lend", asked);
      if (subscribers === null) {
        this.#borrowed.delete(thread);
        return false;
      }
      this.#bus.stays(actor);
      this.#bus.addSubscribers(topicOf({ kind: "thread", key: thread }), subscribers);
    } catch (error) {
      this.#borrowed.delete(thread);
      throw error;
    }
    this.#env.timer(heldMs, () => {
      if (this.#borrowed.get(thread) === loan) this.settled(thread);
    });
    return true;
  }

  /** The borrowed run has been taken, or cannot be taken: the thread returns as soon as the run has left memory. */
  settled(thread: string): void {
    const loan = this.#borrowed.get(thread);
    if (loan === undefined) return;
    loan.isHeld = false;
    this.left({ kind: "thread", key: thread });
  }

  /** An actor has left the memory of this node. */
  left(actor: AnyAddress): void {
    if (this.#borrowed.size === 0) return;
    const { kind, key: thread } = placedWith(actor);
    const loan = kind === "thread" ? this.#borrowed.get(thread) : undefined;
    if (loan === undefined || loan.isHeld || this.#isHere("thread", thread)) return;
    // At once: until then the home sends messages here, and this node sends them back.
    if (!loan.isReturned) this.#bus.tell({ kind: "node", key: loan.home }, "returned", { thread });
    loan.isReturned = true;
    // The run may still publish its last frames.
    if (this.#isHere("run", loan.run)) return;
    this.#end(thread);
  }

  /** Notes that a thread of this node lives on another for now. Returns its subscribers. */
  lend(thread: string, to: NodeId): readonly NodeId[] {
    if (this.#lent.size >= awayMax) this.#lent.clear();
    this.#lent.set(thread, { node: to, until: this.#env.monotonic() + awayMs });
    return this.#bus.leadTo(topicOf({ kind: "thread", key: thread }), to);
  }

  /** A thread of this node has returned. */
  returned(thread: string): void {
    this.#lent.delete(thread);
  }

  #end(thread: string): void {
    this.#borrowed.delete(thread);
    const address = { kind: "thread", key: thread } as const;
    this.#bus.left(address);
    this.#bus.dropSubscribers(topicOf(address));
  }

  /** True while actors of a borrowed thread are loaded here. */
  #isUsed(thread: string): boolean {
    const loan = this.#borrowed.get(thread);
    return loan !== undefined && (loan.isHeld || this.#isHere("thread", thread));
  }
}

/** Returns the loan of a thread for one of its runs. */
export function loanOf(tenantId: string, suffix: string, runId: string): ThreadLoan {
  return { thread: threadAddress(tenantId, suffix).key, run: runAddress(tenantId, suffix, runId).key };
}
