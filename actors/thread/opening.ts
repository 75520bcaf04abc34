import type { Env, Timer } from "../../bus/env.ts";

/** A run that has not begun by then is taken for lost: longer than the store is waited for on its way. */
const openMsMax = 30_000;

/** The time in which a log is reserved for a run that is about to begin. */
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

  /** The run has begun, or does not begin. */
  close(): void {
    this.#closed = true;
    this.#lapse?.cancel();
    for (const resolve of this.#waiting) resolve();
    this.#waiting = [];
  }

  /** Resolves when it is closed, at the latest when it has expired. */
  over(): Promise<void> {
    if (this.#closed) return Promise.resolve();
    const leftMs = this.#openedAt + openMsMax - this.#env.monotonic();
    this.#lapse ??= this.#env.timer(Math.max(0, leftMs), () => this.close());
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}
