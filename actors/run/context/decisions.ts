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

/**
 * The questions of one run to models that are no part of its conversation (decision 113: deciders, judges, screeners). Each
 * question is asked once; a few are asked concurrently.
 */
export class AskedOnce<Answer> {
  readonly #gate = new Semaphore(concurrentMax);
  readonly #asked = new Map<string, Promise<Answer>>();

  /** Returns the answer to the question with this key. The first call asks it with `ask`. */
  once(key: string, ask: () => Promise<Answer>): Promise<Answer> {
    let answer = this.#asked.get(key);
    if (answer === undefined) {
      answer = this.#gate.run(ask);
      this.#asked.set(key, answer);
    }
    return answer;
  }
}
