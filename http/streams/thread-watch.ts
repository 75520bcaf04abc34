import { threadAddress } from "../../bus/address.ts";
import type { Timer } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { HttpContext } from "../context.ts";
import type { ThreadListener } from "../thread-fan-out.ts";

/** What to watch. */
interface Watched {
  readonly tenantId: string;
  readonly suffix: string;
  /** The store is read after this time even without a notification, because notifications may be lost. */
  readonly againMs: number;
  /** Reads the state. A failure is tried again, except one with status 404. */
  readonly look: () => Promise<void>;
  /** Called if the run or its thread was deleted. */
  readonly gone: (refusal: SvcError) => void;
}

/** Looks at a run of a thread when it begins, whenever the run may have changed, and from time to time. One look at a time. */
export class ThreadWatch implements ThreadListener {
  readonly #context: HttpContext;
  readonly #watched: Watched;
  readonly #address: ReturnType<typeof threadAddress>;
  #again: Timer | null = null;
  #isLooking = false;
  #isStale = false;
  #isClosed = false;

  constructor(context: HttpContext, watched: Watched) {
    this.#context = context;
    this.#watched = watched;
    this.#address = threadAddress(watched.tenantId, watched.suffix);
    context.fanOut.join(this.#address, this);
    this.#wake();
    this.#lookAgain();
  }

  /** True after `close`. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Stops watching. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#again?.cancel();
    this.#context.fanOut.leave(this.#address, this);
  }

  frames(text: string, cursor: number | null): void {
    // Text of the model changes nothing in the store.
    if (cursor !== null || text.includes('"run_status"')) this.#wake();
  }

  forget(): void {}

  rewound(): void {
    this.#wake();
  }

  /** The actors of the thread are on another node from now on, and the run with them. */
  lost(): void {
    if (this.#isClosed) return;
    this.#context.fanOut.join(this.#address, this);
    this.#wake();
  }

  #lookAgain(): void {
    this.#again = this.#context.env.timer(this.#watched.againMs, () => {
      this.#wake();
      if (!this.#isClosed) this.#lookAgain();
    });
  }

  #wake(): void {
    this.#isStale = true;
    if (!this.#isLooking && !this.#isClosed) void this.#look();
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    // The owner has this watch when the first look begins.
    await null;
    try {
      while (this.#isStale && !this.#isClosed) {
        this.#isStale = false;
        await this.#watched.look();
      }
    } catch (error) {
      const refusal = SvcError.from(error);
      if (refusal.status === 404) this.#watched.gone(refusal);
      // The store is unavailable; the next wake-up tries again.
      else this.#context.log.warn({ err: error }, "the state of an awaited run could not be read");
    } finally {
      this.#isLooking = false;
    }
  }
}
