import { threadAddress } from "../../bus/address.ts";
import type { Timer } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { isTerminal } from "../../bus/frames/a2a-objects.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import type { HttpContext, LiveTurn } from "../context.ts";
import type { ThreadListener } from "../thread-fan-out.ts";
import { findTask, type StoredTask, statusOf } from "./task.ts";

/** The store is read after this time even without a notification, because notifications may be lost. */
const againMs = 2_000;
/** Longest wait of a caller. The task continues, and the caller can read it later. */
const waitMs = 60 * 60_000;

/** Waits until a task ends or waits for a person. */
export class TaskWatch implements ThreadListener, LiveTurn {
  slot = -1;
  /** Resolves when the task ends or waits for a person, and when the wait ends for another reason. */
  readonly settled: Promise<void>;
  readonly #context: HttpContext;
  readonly #store: TenantStore;
  readonly #id: string;
  readonly #address: ReturnType<typeof threadAddress>;
  readonly #limit: Timer;
  #again: Timer | null = null;
  #resolve = (): void => {};
  #isLooking = false;
  #isStale = false;
  #isClosed = false;

  constructor(context: HttpContext, store: TenantStore, { run, thread }: StoredTask) {
    this.#context = context;
    this.#store = store;
    this.#id = run.run_id;
    this.#address = threadAddress(store.tenantId, thread.suffix);
    this.settled = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    context.turns.add(this);
    context.fanOut.join(this.#address, this);
    this.#limit = context.env.timer(waitMs, () => this.close());
    this.#wake();
    this.#lookAgain();
  }

  /** Ends the wait. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#again?.cancel();
    this.#limit.cancel();
    this.#context.fanOut.leave(this.#address, this);
    this.#context.turns.delete(this);
    this.#resolve();
  }

  frames(text: string, cursor: number | null): void {
    // Text of the model changes no state.
    if (cursor !== null || text.includes('"run_status"')) this.#wake();
  }

  forget(): void {}

  rewound(): void {
    this.#wake();
  }

  /** The actors of the thread are on another node from now on, and the task with them. */
  lost(): void {
    if (this.#isClosed) return;
    this.#context.fanOut.join(this.#address, this);
    this.#wake();
  }

  fail(): void {
    this.close();
  }

  #lookAgain(): void {
    this.#again = this.#context.env.timer(againMs, () => {
      this.#wake();
      if (!this.#isClosed) this.#lookAgain();
    });
  }

  #wake(): void {
    this.#isStale = true;
    if (!this.#isLooking) void this.#look();
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    try {
      while (this.#isStale && !this.#isClosed) {
        this.#isStale = false;
        const { state } = await statusOf(this.#store, await findTask(this.#store, this.#id));
        if (isTerminal(state) || state === "auth-required") this.close();
      }
    } catch (error) {
      // The context was deleted.
      if (SvcError.from(error).status === 404) this.close();
      else this.#context.log.warn({ err: error, run_id: this.#id }, "the state of an awaited task could not be read");
    } finally {
      this.#isLooking = false;
    }
  }
}
