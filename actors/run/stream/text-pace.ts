import type { Env } from "../../../bus/env.ts";

/** Milliseconds of an event-loop turn above which the thread counts as busy. */
const longTurnMs = 8;
/** Milliseconds between two chunks of one stream on a busy thread. */
const beatMs = 40;

/**
 * Decides when the runs of a thread send text. An idle thread sends it at once. A busy thread, with long event-loop turns,
 * gathers text and sends it in beats. Fewer frames then carry the same text (decision 8: text deltas), which saves time.
 */
export class TextPace {
  readonly #env: Env;
  #isBusy = false;
  #measuring = false;
  #waiting: (() => void)[] = [];

  constructor(env: Env) {
    this.#env = env;
  }

  /** True if text must wait for the next beat. */
  get isBusy(): boolean {
    if (!this.#measuring) {
      this.#measuring = true;
      const startedAt = this.#env.monotonic();
      this.#env.defer(() => {
        this.#measuring = false;
        this.#isBusy = this.#env.monotonic() - startedAt > longTurnMs;
      });
    }
    return this.#isBusy;
  }

  /** Calls `work` at the next beat. */
  onBeat(work: () => void): void {
    if (this.#waiting.length === 0) this.#env.timer(beatMs, this.#beat);
    this.#waiting.push(work);
  }

  #beat = (): void => {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const work of waiting) work();
  };
}
