import { breathe, type Env } from "../../../bus/env.ts";
import { checkSignal } from "./refusal.ts";

/** Max names that one call may visit. */
const namesMax = 50_000;
/** Max time of a call's traversal. */
const lookMs = 2_000;

/** Limits the traversal of one call, however large the workspace is, and yields to the event loop. */
export class Survey {
  /** Names visited so far. */
  names = 0;
  readonly #env: Env;
  readonly #signal: AbortSignal;
  readonly #until: number;
  #stoppedAfter = "";

  constructor({ env, signal }: { readonly env: Env; readonly signal: AbortSignal }) {
    this.#env = env;
    this.#signal = signal;
    this.#until = env.monotonic() + lookMs;
  }

  get namesLeft(): number {
    return namesMax - this.names;
  }

  /** True if the time is used up; the result then says so. */
  isOver(): boolean {
    if (this.#env.monotonic() < this.#until) return false;
    this.#stoppedAfter = `${lookMs / 1000} seconds`;
    return true;
  }

  /** Records that names were skipped, because there were too many or they were too deep. */
  cut(): void {
    this.#stoppedAfter ||= `${this.names} names`;
  }

  /** Refuses after the call was aborted. */
  checkSignal(): void {
    checkSignal(this.#signal);
  }

  /** Yields to the event loop. Refuses after the call was aborted. */
  async breathe(): Promise<void> {
    await breathe(this.#env);
    this.checkSignal();
  }

  /** Returns the line about what was skipped; none if nothing was. */
  skipped(advice: string): string[] {
    return this.#stoppedAfter === "" ? [] : [`[stopped after ${this.#stoppedAfter}: ${advice}]`];
  }
}
