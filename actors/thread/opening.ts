import type { Env, Timer } from "../../bus/env.ts";

/** A run that has not begun by then counts as lost; longer than the deadline of the store. */
const openMsMax = 30_000;

/** The period in which a log is reserved for a run that is about to begin. */
export class Opening {
  readonly runId: string;
  readonly #env: Env;
  readonly #openedAt: number;
  #waiting: (() => void)[] = [];
  #lapse: Timer | null = null;
  #closed = false;

  constructor(runId: string, env: Env) {
    this.runId = runId;
    this.#env = env;
    this.#openedAt = env.monotonic();
  }

  /** Ends the reservation: the run has begun or will not begin. */
  close(): void {
    this.#closed = true;
    this.#lapse?.cancel();
    for (const resolve of this.#waiting) resolve();
    this.#waiting = [];
  }

  /** Resolves when the reservation is closed or expires. */
  over(): Promise<void> {
    if (this.#closed) return Promise.resolve();
    const leftMs = this.#openedAt + openMsMax - this.#env.monotonic();
    this.#lapse ??= this.#env.timer(Math.max(0, leftMs), () => this.close());
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}
