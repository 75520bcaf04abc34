import type { InputHead } from "../../storage/tables/queued-inputs.ts";
import type { AtEnd, QueuedCount, TakeInputs } from "../log/messages.ts";

/**
 * The queued inputs of one thread in order, without their texts, which are read when a run takes them. A change writes the rows
 * first and runs exclusively, by `alone`.
 */
export class InputQueue {
  #waiting: readonly InputHead[];
  #last: number;
  #work: Promise<void> | null = null;

  constructor(waiting: readonly InputHead[]) {
    this.#waiting = waiting;
    this.#last = waiting.at(-1)?.number ?? 0;
  }

  get size(): number {
    return this.#waiting.length;
  }

  /** The highest assigned number. */
  get last(): number {
    return this.#last;
  }

  /** Counts of the inputs that a run takes at a step; null for none. */
  get forStep(): QueuedCount | null {
    const steers = this.count("steer");
    const notes = this.count("note");
    return steers + notes === 0 ? null : { steers, notes };
  }

  count(kind: InputHead["kind"]): number {
    return this.#waiting.reduce((sum, input) => sum + (input.kind === kind ? 1 : 0), 0);
  }

  /** Returns the queued note on a subject. */
  noteOn(subject: string): InputHead | undefined {
    return this.#waiting.find((input) => input.kind === "note" && input.subject === subject);
  }

  notes(): readonly InputHead[] {
    return this.#waiting.filter(({ kind }) => kind === "note");
  }

  /** True if queued inputs prevent the end of a run. */
  keepsFromEnd(at: AtEnd): boolean {
    return this.count("follow_up") > 0 || (at === "end" && this.count("steer") > 0);
  }

  /** Returns the inputs that a run takes now. Steers that prevented its end are taken at its next step. */
  select({ moment, steers, follow_ups }: Pick<TakeInputs, "moment" | "steers" | "follow_ups">): readonly InputHead[] {
    if (moment === "end" && this.count("steer") > 0) return [];
    const isFollowUp = moment === "end" || moment === "end_of_steps";
    const taken = isFollowUp ? "follow_up" : "steer";
    const isOne = moment !== "start" && (isFollowUp ? follow_ups : steers) === "one-at-a-time";
    let left = isOne ? 1 : this.size;
    return this.#waiting.filter(({ kind }) => kind === "note" || (kind === taken && left-- > 0));
  }

  /** Returns the number for a new input. */
  next(): number {
    return ++this.#last;
  }

  /** Adds an input whose row is written. */
  add(input: InputHead): void {
    this.#waiting = [...this.#waiting, input];
  }

  /** Removes inputs whose rows are deleted. */
  remove(gone: readonly InputHead[]): void {
    const numbers = new Set(gone.map(({ number }) => number));
    this.#waiting = this.#waiting.filter(({ number }) => !numbers.has(number));
  }

  /** Runs work exclusively, in order. */
  alone<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#work === null ? work() : this.#work.then(work);
    const settled = done.then(nothing, nothing);
    this.#work = settled;
    return done;
  }

  /** Resolves when all work is done. */
  async settled(): Promise<void> {
    let work: Promise<void> | null = null;
    while (work !== this.#work) {
      work = this.#work;
      await work;
    }
  }
}

function nothing(): void {}
