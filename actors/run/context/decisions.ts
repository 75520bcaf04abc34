import { Semaphore } from "../../../bus/queues/semaphore.ts";

/** The answer of a decider. */
export type Decided =
  | {
      readonly kind: "decided";
      readonly choice: string;
      /** From 0 to 1; null if the decider does not report it. */
      readonly confidence: number | null;
      /** Probability of each option; null if the decider does not report them. */
      readonly probabilities: Readonly<Record<string, number>> | null;
    }
  /** The decider failed, timed out, or named none of the options. */
  | { readonly kind: "error" };

/** Max concurrent questions. */
const concurrentMax = 4;

/** The questions to the deciders of one run (decision 113: deciders). Each question is asked once; a few are asked concurrently. */
export class Decisions {
  readonly #gate = new Semaphore(concurrentMax);
  readonly #asked = new Map<string, Promise<Decided>>();

  /** Returns the answer to the question with this key. The first call asks it with `ask`. */
  once(key: string, ask: () => Promise<Decided>): Promise<Decided> {
    let decided = this.#asked.get(key);
    if (decided === undefined) {
      decided = this.#gate.run(ask);
      this.#asked.set(key, decided);
    }
    return decided;
  }
}
