import type { InputHead } from "../../storage/tables/queued-inputs.ts";
import type { AtEnd, QueuedCount, TakeInputs } from "../log/messages.ts";

/**
 * What waits for the run of one conversation, in its order: without its words, which are read when they are taken. Whoever changes it
 * writes the rows first, and works on it alone.
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

  /** The highest number that was given out. */
  get last(): number {
    return this.#last;
  }

  /** What a run takes at a step; null for nothing. */
  get forStep(): QueuedCount | null {
    const steers = this.count("steer");
    const notes = this.count("note");
    return steers + notes === 0 ? null : { steers, notes };
  }

  count(kind: InputHead["kind"]): number {
    return this.#waiting.reduce((sum, input) => sum + (input.kind === kind ? 1 : 0), 0);
  }

  /** The note on a subject. */
  noteOn(subject: string): InputHead | undefined {
    return this.#waiting.find((input) => input.kind === "note" && input.subject === subject);
  }

  notes(): readonly InputHead[] {
    return this.#waiting.filter(({ kind }) => kind === "note");
  }

  /** Whether a run may not end yet. */
  keepsFromEnd(at: AtEnd): boolean {
    return this.count("follow_up") > 0 || (at === "end" && this.count("steer") > 0);
  }

  /** What a run is to be given now. Steers that have kept it from its end it takes at its next step. */
  select({ moment, steers, follow_ups }: Pick<TakeInputs, "moment" | "steers" | "follow_ups">): readonly InputHead[] {
    if (moment === "end" && this.count("steer") > 0) return [];
    const isFollowUp = moment === "end" || moment === "end_of_steps";
    const taken = isFollowUp ? "follow_up" : "steer";
    const isOne = moment !== "start" && (isFollowUp ? follow_ups : steers) === "one-at-a-time";
    let left = isOne ? 1 : this.size;
    return this.#waiting.filter(({ kind }) => kind === "note" || (kind === taken && left-- > 0));
  }

  /** A number for what is to be added. */
  next(): number {
    return ++this.#last;
  }

  /** Something waits: its row is there. */
  add(input: InputHead): void {
    this.#waiting = [...this.#waiting, input];
  }

  /** These do not wait any more: their rows are gone. */
  remove(gone: readonly InputHead[]): void {
    const numbers = new Set(gone.map(({ number }) => number));
    this.#waiting = this.#waiting.filter(({ number }) => !numbers.has(number));
  }

  /** Does one piece of work after the other. */
  alone<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#work === null ? work() : this.#work.then(work);
    const settled = done.then(nothing, nothing);
    this.#work = settled;
    return done;
  }

  /** Resolves when what has been begun is done. */
  async settled(): Promise<void> {
    let work: Promise<void> | null = null;
    while (work !== this.#work) {
      work = this.#work;
      await work;
    }
  }
}

function nothing(): void {}
