import type { Env } from "../../../bus/env.ts";

/** Turns of the event loop that take longer than this show that the thread has more to do than it can. */
const longTurnMs = 8;
/** Between two pieces of one stream while that is so. */
const beatMs = 40;

/**
 * When the runs of a thread pass on what they have read. While the thread keeps up that is at once. When turns of the event loop
 * get long, because a thousand models speak at the same time, text is gathered and leaves in beats: fewer frames carry the same
 * text (decision 8), and the time that is saved goes to the turns.
 */
export class TextPace {
  readonly #env: Env;
  #isBusy = false;
  #measuring = false;
  #waiting: (() => void)[] = [];

  constructor(env: Env) {
    this.#env = env;
  }

  /** Whether text is to wait for the next beat. */
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
