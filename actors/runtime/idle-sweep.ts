import type { Env, Timer } from "../../bus/env.ts";
import { isIdle } from "./cell.ts";
import type { Cells } from "./cells.ts";

/** How often actors are looked for that can leave memory, and how many are looked at each time. */
export const sweepMs = 1_000;
export const sweepCells = 2_000;
/** Of the actors in memory that are more than this idle ones leave at the next look, and those of some kinds at once. */
export const cellsMax = 4_000;
/** How many are looked at each time while there are more: a look takes a millisecond or two, and no load brings so many in a second. */
export const crowdCells = 20_000;

/** Lets idle actors leave memory, as long as it is not closed. */
export class IdleSweep {
  readonly #env: Env;
  readonly #cells: Cells;
  #timer: Timer | null = null;
  #at = 0;
  #closed = false;

  constructor(env: Env, cells: Cells) {
    this.#env = env;
    this.#cells = cells;
    this.#later();
  }

  /** What is in memory stays. */
  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  #later(): void {
    this.#timer = this.#env.timer(sweepMs, () => {
      this.#sweep();
      if (!this.#closed) this.#later();
    });
  }

  /** Looks at some actors each time and goes on from there the next time, so that many actors cost no long pause. */
  #sweep(): void {
    const now = this.#env.monotonic();
    const looks = this.#cells.size > cellsMax ? crowdCells : sweepCells;
    for (let looked = 0; looked < looks; looked++) {
      const cell = this.#cells.at(this.#at);
      if (cell === undefined) {
        this.#at = 0;
        return;
      }
      const isDue = now - cell.lastUsed >= cell.definition.passivateAfterMs || this.#cells.size > cellsMax;
      // Whoever leaves, the last one takes its place.
      if (isDue && isIdle(cell)) this.#cells.take(cell);
      else this.#at++;
    }
  }
}
