import type { Path } from "../problems.ts";

/** A position at which something was refused. */
export interface RefutedPlace {
  /** In the numbering of the source. */
  readonly path: Path;
  /** `value`: the value itself was replaced by its default. `entries`: some entries of the list or map were removed. */
  readonly what: "value" | "entries";
}

/**
 * Tracks refused parts of a manifest and whether later stages read them, so that problems caused by such reads are not
 * reported. Empty for a manifest without problems.
 */
export class Refuted {
  #reads = new Set<RefutedPlace>();
  /** Remaining entries of a list, by their index in the source. */
  readonly #left = new Map<unknown, readonly number[]>();

  /** Marks the value at `key` as refused: every later read of it records `place`. */
  mark(owner: object, key: string | number, place: RefutedPlace): void {
    const before = Object.getOwnPropertyDescriptor(owner, key);
    const value = (): unknown => (before?.get ? before.get.call(owner) : before?.value);
    const get = (): unknown => {
      this.#reads.add(place);
      return value();
    };
    Object.defineProperty(owner, key, { get, enumerable: before !== undefined, configurable: true });
  }

  /** Removes the entries of a list for which `isLeft` is false. */
  shorten(list: unknown[], isLeft: (entry: unknown) => boolean): void {
    const indexes = this.#left.get(list) ?? [...list.keys()];
    this.#left.set(
      list,
      indexes.filter((_, at) => isLeft(list[at])),
    );
    list.splice(0, list.length, ...list.filter(isLeft));
  }

  /** Converts the current path `loc` below `root` to the numbering of the source. */
  locate(root: unknown, loc: Path): Path {
    let value = root;
    return loc.map((step) => {
      const index = typeof step === "number" ? (this.#left.get(value)?.[step] ?? step) : step;
      value = (value as Record<string | number, unknown> | null | undefined)?.[step];
      return index;
    });
  }

  /** Runs `look`; returns its result and the refused places that it read. */
  watch<T>(look: () => T): { readonly value: T; readonly reads: ReadonlySet<RefutedPlace> } {
    const before = this.#reads;
    const reads = new Set<RefutedPlace>();
    this.#reads = reads;
    try {
      return { value: look(), reads };
    } finally {
      this.#reads = before;
    }
  }

  /** Adds the reads of another `watch` to the current one. */
  alsoRead(places: ReadonlySet<RefutedPlace>): void {
    for (const place of places) this.#reads.add(place);
  }

  /** True if a narrow rule is broken because of a refused part, and not because of the value at `loc`. */
  breaks(loc: Path, reads: Iterable<RefutedPlace>): boolean {
    return [...reads].some((place) => {
      const nearness = compare(place, loc);
      return nearness !== "within" && nearness !== "beside";
    });
  }

  /**
   * The same for a stage that reads many fields: problems of other entries, or of other parts of the same field, are
   * still reported.
   */
  breaksHere(loc: Path): boolean {
    return [...this.#reads].some((place) => {
      const nearness = compare(place, loc);
      return nearness === "same" || (nearness === "apart" && place.path[1] !== loc[1]);
    });
  }
}

/**
 * Compares a refused place with a path: the same value, `within` a list or map that has lost entries, another entry of
 * the same list (`beside`), or `apart`.
 */
function compare({ path, what }: RefutedPlace, loc: Path): "same" | "within" | "beside" | "apart" {
  const shared = path.findIndex((step, at) => step !== loc[at]);
  if (shared === -1) return what === "entries" && loc.length > path.length ? "within" : "same";
  if (shared >= loc.length) return "same";
  return typeof path[shared] === "number" && typeof loc[shared] === "number" ? "beside" : "apart";
}
