import type { Env } from "../bus/env.ts";

/** Work of some milliseconds that many may ask for at once: each has a turn of the event loop, and others have theirs between them. */
export class LoopTurns {
  readonly #env: Env;
  #last: Promise<void> = Promise.resolve();

  constructor(env: Env) {
    this.#env = env;
  }

  /** Resolves in a turn that nobody else was given, in the order of the calls. */
  next(): Promise<void> {
    this.#last = this.#last.then(() => new Promise<void>((resolve) => this.#env.defer(resolve)));
    return this.#last;
  }
}
