import { SlotMap, SlotSet } from "../../bus/slot-map.ts";
import type { Cell } from "./cell.ts";

/** The cells of a host. A message finds its own by kind and then by key: to put both into one text would be to hash it anew each time. */
export class Cells {
  readonly #ofKinds = new Map<string, SlotMap<Cell>>();
  readonly #all = new SlotSet<Cell>();

  get size(): number {
    return this.#all.size;
  }

  get(kind: string, key: string): Cell | undefined {
    return this.#ofKinds.get(kind)?.get(key);
  }

  /** As of a SlotSet. */
  at(slot: number): Cell | undefined {
    return this.#all.at(slot);
  }

  /** There is none yet of this kind and key. */
  add(cell: Cell): void {
    const { kind } = cell.definition;
    let ofKind = this.#ofKinds.get(kind);
    if (ofKind === undefined) {
      ofKind = new SlotMap();
      this.#ofKinds.set(kind, ofKind);
    }
    ofKind.set(cell.key, cell);
    this.#all.add(cell);
  }

  /** Takes a cell out, if it is here; another one of its kind and key stays. */
  take(cell: Cell): void {
    if (cell.slot < 0) return;
    this.#ofKinds.get(cell.definition.kind)?.take(cell.key);
    this.#all.delete(cell);
  }

  /** Those that are here now. */
  [Symbol.iterator](): Iterator<Cell> {
    return this.#all[Symbol.iterator]();
  }
}
