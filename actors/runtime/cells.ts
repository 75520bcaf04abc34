import { TurnoverMap } from "../../bus/turnover.ts";
import type { Cell } from "./cell.ts";

/** The cells of a host. A message finds its own by kind and then by key: to put both into one text would be to hash it anew each time. */
export class Cells {
  readonly #ofKinds = new Map<string, TurnoverMap<Cell>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(kind: string, key: string): Cell | undefined {
    return this.#ofKinds.get(kind)?.get(key);
  }

  /** There is none yet of this kind and key. */
  add(cell: Cell): void {
    const { kind } = cell.definition;
    let ofKind = this.#ofKinds.get(kind);
    if (ofKind === undefined) {
      ofKind = new TurnoverMap();
      this.#ofKinds.set(kind, ofKind);
    }
    ofKind.set(cell.key, cell);
    this.#size++;
  }

  /** Takes a cell out; another one that has its place stays. */
  take(cell: Cell): void {
    const ofKind = this.#ofKinds.get(cell.definition.kind);
    if (ofKind?.get(cell.key) !== cell) return;
    ofKind.take(cell.key);
    this.#size--;
  }

  /** As of a Map: what is taken meanwhile does not come. */
  *[Symbol.iterator](): IterableIterator<Cell> {
    for (const ofKind of this.#ofKinds.values()) for (const [, cell] of ofKind) yield cell;
  }
}
