import type { Path } from "../problems.ts";

/** A place of which something was refused. */
export interface RefutedPlace {
  /** In the numbering of the source. */
  readonly path: Path;
  /** The value itself, in whose place its default stands, or some entries of the list or map, which are left out. */
  readonly what: "value" | "entries";
}

/**
 * What of a manifest was refused, and whether later stages have looked at it: what they find by that is no problem of its own. Of a manifest
 * without problems nothing is in it.
 */
export class Refuted {
  #reads = new Set<RefutedPlace>();
  /** Which entries of a list are left, by their place in the source. */
  readonly #left = new Map<unknown, readonly number[]>();

  /** Says that the value at `key` does not count: whoever reads it from now on has read `place`. */
  mark(owner: object, key: string | number, place: RefutedPlace): void {
    const before = Object.getOwnPropertyDescriptor(owner, key);
    const value = (): unknown => (before?.get ? before.get.call(owner) : before?.value);
    const get = (): unknown => {
      this.#reads.add(place);
      return value();
    };
    Object.defineProperty(owner, key, { get, enumerable: before !== undefined, configurable: true });
  }

  /** Takes out of a list what `isLeft` does not keep. */
  shorten(list: unknown[], isLeft: (entry: unknown) => boolean): void {
    const indexes = this.#left.get(list) ?? [...list.keys()];
    this.#left.set(
      list,
      indexes.filter((_, at) => isLeft(list[at])),
    );
    list.splice(0, list.length, ...list.filter(isLeft));
  }

  /** Where in the source it stands, what is at `loc` below `root` now. */
  locate(root: unknown, loc: Path): Path {
    let value = root;
    return loc.map((step) => {
      const index = typeof step === "number" ? (this.#left.get(value)?.[step] ?? step) : step;
      value = (value as Record<string | number, unknown> | null | undefined)?.[step];
      return index;
    });
  }

  /** What `look` answers, and what of that which was refused it has read. */
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

  /** Counts as read what somebody else has read for this look. */
  alsoRead(places: ReadonlySet<RefutedPlace>): void {
    for (const place of places) this.#reads.add(place);
  }

  /** Whether a rule that has read no more than it needs is broken by what was refused, and not by what is at `loc`. */
  breaks(loc: Path, reads: Iterable<RefutedPlace>): boolean {
    return [...reads].some((place) => {
      const nearness = compare(place, loc);
      return nearness !== "within" && nearness !== "beside";
    });
  }

  /** The same for a look at much, up to now: what it says of another entry or another part of the same field is taken for true. */
  breaksHere(loc: Path): boolean {
    return [...this.#reads].some((place) => {
      const nearness = compare(place, loc);
      return nearness === "same" || (nearness === "apart" && place.path[1] !== loc[1]);
    });
  }
}

/** `within` a list or map some entries of which are left out, `beside` as another entry of the same list, or `apart`. */
function compare({ path, what }: RefutedPlace, loc: Path): "same" | "within" | "beside" | "apart" {
  const shared = path.findIndex((step, at) => step !== loc[at]);
  if (shared === -1) return what === "entries" && loc.length > path.length ? "within" : "same";
  if (shared >= loc.length) return "same";
  return typeof path[shared] === "number" && typeof loc[shared] === "number" ? "beside" : "apart";
}
