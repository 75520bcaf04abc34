import { breathe, type Env } from "../../../bus/env.ts";
import { checkSignal } from "./refusal.ts";

/** Names that one call may look at. */
const namesMax = 50_000;
/** How long it may look. */
const lookMs = 2_000;

/** What one call may look at, however large the workspace is, and the turns that others have meanwhile. */
export class Survey {
  /** Names looked at so far. */
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

  /** Whether the time for looking is over; from then on the result says so. */
  isOver(): boolean {
    if (this.#env.monotonic() < this.#until) return false;
    this.#stoppedAfter = `${lookMs / 1000} seconds`;
    return true;
  }

  /** There are more names than may be looked at, or lie deeper than any path leads. */
  cut(): void {
    this.#stoppedAfter ||= `${this.names} names`;
  }

  /** Refuses once the call was given up. */
  checkSignal(): void {
    checkSignal(this.#signal);
  }

  /** Lets others have a turn. Refuses once the call was given up. */
  async breathe(): Promise<void> {
    await breathe(this.#env);
    this.checkSignal();
  }

  /** The line that says what was not looked at; none when everything was. */
  told(advice: string): string[] {
    return this.#stoppedAfter === "" ? [] : [`[stopped after ${this.#stoppedAfter}: ${advice}]`];
  }
}
