import type { Env, Timer } from "../../bus/env.ts";
import { type Cell, isIdle } from "./cell.ts";
import type { Cells } from "./cells.ts";

/** How often actors are looked for that can leave memory, and how many are looked at each time. */
export const sweepMs = 1_000;
export const sweepCells = 2_000;
/** Beyond this many actors in memory idle ones leave at the next look, and those of some kinds at once. */
export const cellsMax = 4_000;

/** Lets idle actors leave memory, as long as it is not closed. */
export class IdleSweep {
  readonly #env: Env;
  readonly #cells: Cells;
  #timer: Timer | null = null;
  #at: Iterator<Cell> | null = null;
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
    const now = this.#env.now();
    const crowded = this.#cells.size > cellsMax;
    this.#at ??= this.#cells[Symbol.iterator]();
    for (let looked = 0; looked < (crowded ? cellsMax : sweepCells); looked++) {
      const next = this.#at.next();
      if (next.done) {
        this.#at = null;
        return;
      }
      const cell = next.value;
      const unused = now - cell.lastUsed;
      if (isIdle(cell) && (crowded || unused >= cell.definition.passivateAfterMs)) this.#cells.take(cell);
    }
  }
}
