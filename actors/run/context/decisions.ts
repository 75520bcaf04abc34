import { Semaphore } from "../../../bus/queues/semaphore.ts";

/** What a decider came to. */
export type Decided =
  | {
      readonly kind: "decided";
      readonly choice: string;
      /** From 0 to 1; null where the decider says nothing of it. */
      readonly confidence: number | null;
      /** Of each option; null where the decider says nothing of it. */
      readonly probabilities: Readonly<Record<string, number>> | null;
    }
  /** It has failed, has not answered in time, or has not said which of the options. */
  | { readonly kind: "error" };

/** Questions that are asked at once. */
const besideMax = 4;

/** What the deciders of one run were asked: the same question once, and a few at a time (decision 113). */
export class Decisions {
  readonly #gate = new Semaphore(besideMax);
  readonly #asked = new Map<string, Promise<Decided>>();

  /** What came of the question that `key` stands for; `ask` asks it. */
  once(key: string, ask: () => Promise<Decided>): Promise<Decided> {
    let decided = this.#asked.get(key);
    if (decided === undefined) {
      decided = this.#gate.run(ask);
      this.#asked.set(key, decided);
    }
    return decided;
  }
}
