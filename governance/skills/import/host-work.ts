import type { Env } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import { FairSemaphore } from "../../../bus/queues/fair-semaphore.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import type { ImportBudget } from "./budget.ts";
import type { HostCaller } from "./code-host.ts";

/** Pieces of work of a thread, and of one tenant, that are open at once; others wait. */
const openMax = 8;
const openOfTenantMax = 3;
const waitingMax = 20;
const waitSeconds = 10;

/** The bounds of some work. */
export interface WorkBounds {
  readonly deadlineMs: number;
  /** Aborts when the caller has gone; absent for work without a caller. */
  readonly signal?: AbortSignal;
}

/** Runs work with the code host within the budgets, some at once, each with a deadline. */
export class HostWork {
  readonly #env: Pick<Env, "timer" | "id">;
  readonly #budget: ImportBudget;
  readonly #permits = new FairSemaphore(openMax, openOfTenantMax);

  constructor(env: Pick<Env, "timer" | "id">, budget: ImportBudget) {
    this.#env = env;
    this.#budget = budget;
  }

  /** Runs work for a tenant. Refuses with rate_limited, and with deadline_exceeded after the deadline. */
  async run<T>(
    store: TenantStore,
    { deadlineMs, signal }: WorkBounds,
    work: (caller: HostCaller) => Promise<T>,
  ): Promise<T> {
    const { tenantId } = store;
    const controller = new AbortController();
    const abort = () => controller.abort();
    const timer = this.#env.timer(deadlineMs, abort);
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort);
    let isHeld = false;
    try {
      await this.#permit(tenantId, controller.signal);
      isHeld = true;
      const spent = await this.#budget.admit(store);
      try {
        return await work({ tenantId, spent, signal: controller.signal });
      } finally {
        // The count of a request that cannot be stored is lost with the store.
        await spent.settle().catch(() => {});
      }
    } finally {
      timer.cancel();
      signal?.removeEventListener("abort", abort);
      if (isHeld) this.#permits.free(tenantId);
    }
  }

  async #permit(tenantId: string, signal: AbortSignal): Promise<void> {
    if (this.#permits.take(tenantId)) return;
    if (this.#permits.waiting(tenantId) >= waitingMax)
      throw new SvcError("rate_limited", { retryAfterSeconds: waitSeconds });
    await new Promise<void>((resolve, reject) => {
      const who = this.#env.id();
      const leave = (): void => {
        this.#permits.leave(tenantId, who);
        reject(new SvcError("deadline_exceeded"));
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#permits.await(tenantId, who, () => {
        signal.removeEventListener("abort", leave);
        resolve();
      });
    });
  }
}
