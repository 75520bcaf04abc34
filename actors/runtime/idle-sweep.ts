import type { Env, Timer } from "../../bus/env.ts";
import { type Cell, isIdle } from "./cell.ts";
import type { Cells } from "./cells.ts";

/** Interval of the sweep, and actors checked each time. */
export const sweepMs = 1_000;
export const sweepCells = 2_000;
/** Above this number of actors in memory, idle ones leave at the next sweep, and those of some kinds at once. */
export const cellsMax = 4_000;
/** Actors checked each time above that number: this takes one or two milliseconds, and no load creates so many per second. */
export const crowdCells = 20_000;

/** Removes idle actors from memory until it is closed. */
export class IdleSweep {
  readonly #env: Env;
  readonly #cells: Cells;
  readonly #remove: (cell: Cell) => void;
  #timer: Timer | null = null;
  #at = 0;
  #closed = false;

  constructor(env: Env, cells: Cells, remove: (cell: Cell) => void) {
    this.#env = env;
    this.#cells = cells;
    this.#remove = remove;
    this.#later();
  }

  /** Stops the sweep; actors stay in memory. */
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

  /** Checks some actors each time and continues there next time, so that many actors cause no long pause. */
  #sweep(): void {
    const now = this.#env.monotonic();
    const looks = this.#cells.size > cellsMax ? crowdCells : sweepCells;
    for (let looked = 0; looked < looks; looked++) {
      const cell = this.#cells.at(this.#at);
      if (cell === undefined) {
        this.#at = 0;
        return;
      }
      const isDue =
        cell.isLeaving || now - cell.lastUsed >= cell.definition.passivateAfterMs || this.#cells.size > cellsMax;
      // Removal moves the last cell into this position.
      if (isDue && isIdle(cell)) this.#remove(cell);
      else this.#at++;
    }
  }
}
