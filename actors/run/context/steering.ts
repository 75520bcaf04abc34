import type { InputHint } from "../../../bus/protocol/run.ts";
import type { TakenInputs } from "../../log/messages.ts";
import type { RunSpec } from "../spec/run-spec.ts";

/** What a run knows of what waits for it: from its thread as it began, from hints since, and from what it was given. */
export class Steering {
  /** Hints of these numbers may come behind what was given. */
  #seen = -1;
  #isDue: boolean;
  #interrupts: boolean;
  /** All that has waited for the run to begin is taken at once. */
  #isAtStart: boolean;

  constructor({ queued, resumed }: Pick<RunSpec, "queued" | "resumed">) {
    this.#isDue = queued !== null;
    this.#isAtStart = queued !== null && resumed === null;
    this.#interrupts = resumed !== null && queued !== null && queued.steers > 0;
  }

  /** Something is to be taken before the next model call. */
  get isDue(): boolean {
    return this.#isDue;
  }

  /** No call is begun any more: somebody has said something that the model is to read first. */
  get interrupts(): boolean {
    return this.#interrupts;
  }

  get isAtStart(): boolean {
    return this.#isAtStart;
  }

  hinted({ number, interrupts }: InputHint): void {
    if (number <= this.#seen) return;
    this.#isDue = true;
    this.#interrupts ||= interrupts;
  }

  /** What was due was given. */
  took({ seen, steers }: TakenInputs): void {
    this.#seen = seen;
    this.#isAtStart = false;
    this.#isDue = steers > 0;
    this.#interrupts = steers > 0;
  }
}
