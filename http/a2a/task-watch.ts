import type { Timer } from "../../bus/env.ts";
import { isTerminal } from "../../bus/frames/a2a-objects.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import type { HttpContext, LiveTurn } from "../context.ts";
import { ThreadWatch } from "../streams/thread-watch.ts";
import { findTask, type StoredTask, statusOf } from "./task.ts";

const againMs = 2_000;
/** Longest wait of a caller. The task continues, and the caller can read it later. */
const waitMs = 60 * 60_000;

/** Waits until a task ends or waits for a person. */
export class TaskWatch implements LiveTurn {
  slot = -1;
  /** Resolves when the task ends or waits for a person, and when the wait ends for another reason. */
  readonly settled: Promise<void>;
  readonly #context: HttpContext;
  readonly #watch: ThreadWatch;
  readonly #limit: Timer;
  #resolve = (): void => {};

  constructor(context: HttpContext, store: TenantStore, { run, thread }: StoredTask) {
    this.#context = context;
    this.settled = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    context.turns.add(this);
    this.#limit = context.env.timer(waitMs, () => this.close());
    this.#watch = new ThreadWatch(context, {
      ...{ tenantId: store.tenantId, suffix: thread.suffix, againMs },
      look: async () => {
        const { state } = await statusOf(store, (await findTask(store, run.run_id)).run);
        if (isTerminal(state) || state === "auth-required") this.close();
      },
      // The context was deleted.
      gone: () => this.close(),
    });
  }

  /** Ends the wait. */
  close(): void {
    if (this.#watch.isClosed) return;
    this.#watch.close();
    this.#limit.cancel();
    this.#context.turns.delete(this);
    this.#resolve();
  }

  /** The watch follows the task to another node. */
  lost(): void {}

  fail(): void {
    this.close();
  }
}
