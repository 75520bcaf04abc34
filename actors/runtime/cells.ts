import { SlotMap, SlotSet } from "../../bus/slot-map.ts";
import type { Cell } from "./cell.ts";

/**
 * The cells of a host. Cells are found by kind, then by key, because a concatenated key would be hashed again for each message.
 */
export class Cells {
  readonly #ofKinds = new Map<string, SlotMap<Cell>>();
  readonly #all = new SlotSet<Cell>();

  get size(): number {
    return this.#all.size;
  }

  get(kind: string, key: string): Cell | undefined {
    return this.#ofKinds.get(kind)?.get(key);
  }

  /** Returns the cell at a position, as `SlotSet.at` does. */
  at(slot: number): Cell | undefined {
    return this.#all.at(slot);
  }

  /** Adds a cell; there must be none with its kind and key. */
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

  /** Removes a cell if it is present; another cell with its kind and key stays. */
  take(cell: Cell): void {
    if (cell.slot < 0) return;
    this.#ofKinds.get(cell.definition.kind)?.take(cell.key);
    this.#all.delete(cell);
  }

  /** Iterates over the cells present now. */
  [Symbol.iterator](): Iterator<Cell> {
    return this.#all[Symbol.iterator]();
  }
}
