import type { Env } from "../bus/env.ts";

/** Serializes work of some milliseconds: each caller gets its own turn of the event loop, so that other work runs in between. */
export class LoopTurns {
  readonly #env: Env;
  #last: Promise<void> = Promise.resolve();

  constructor(env: Env) {
    this.#env = env;
  }

  /** Resolves in a turn of the event loop that no other caller got, in the order of the calls. */
  next(): Promise<void> {
    this.#last = this.#last.then(() => new Promise<void>((resolve) => this.#env.defer(resolve)));
    return this.#last;
  }
}
