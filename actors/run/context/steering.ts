import type { InputHint } from "../../../bus/protocol/run.ts";
import type { TakenInputs } from "../../log/messages.ts";
import type { RunSpec } from "../spec/run-spec.ts";

/** The run's view of its queued input: the input at its start, hints about later input, and the inputs that it has taken. */
export class Steering {
  /** The highest number of an input that the run has taken or counted. A late hint about such an input is ignored. */
  #seen = -1;
  #isDue: boolean;
  #interrupts: boolean;
  /** True until the run has taken the input that was queued before its start, which it takes all at once. */
  #isAtStart: boolean;

  constructor({ queued, resumed }: Pick<RunSpec, "queued" | "resumed">) {
    this.#isDue = queued !== null;
    this.#isAtStart = queued !== null && resumed === null;
    this.#interrupts = resumed !== null && queued !== null && queued.steers > 0;
  }

  /** True if input must be taken before the next model call. */
  get isDue(): boolean {
    return this.#isDue;
  }

  /** True if no further call may start, because the model must first read a queued message. */
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

  /** Records inputs that were taken. */
  took({ seen, steers }: TakenInputs): void {
    this.#seen = seen;
    this.#isAtStart = false;
    this.#isDue = steers > 0;
    this.#interrupts = steers > 0;
  }
}
