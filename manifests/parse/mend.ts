import { nearest } from "../../bus/nearest.ts";
import { problemsMax } from "../../bus/schema-validator.ts";
import type { Path, Problem } from "../problems.ts";
import { type Manifest, manifestSchema } from "../schema/manifest.ts";
import { Refuted, type RefutedPlace } from "../schema/refuted.ts";
import { fieldProblems } from "./check-fields.ts";

/** Max repairs: removing a part may make a list too short or an object incomplete, which is then removed too. */
const roundsMax = 8;

/**
 * Makes an invalid manifest fit the schema: refused parts are removed or get their default. Changes `draft`. Returns
 * null if nothing useful is left.
 */
export function mend(
  draft: unknown,
  problems: readonly Problem[],
): { readonly manifest: Manifest; readonly refuted: Refuted } | null {
  // With the max number of problems, the check may have skipped parts.
  if (problems.length >= problemsMax || !isContainer(draft)) return null;
  const mending = new Mending(draft);
  let wrong = problems;
  for (let round = 0; wrong.length > 0; round++) {
    if (round === roundsMax) return null;
    for (const problem of wrong) mending.leaveOut(problem);
    mending.shorten();
    wrong = fieldProblems(manifestSchema, draft);
  }
  return { manifest: draft as Manifest, refuted: mending.refuted() };
}

interface Node {
  readonly properties?: Readonly<Record<string, Node>>;
  readonly required?: readonly string[];
  readonly items?: Node;
  readonly additionalProperties?: Node | false;
  readonly default?: unknown;
}

type Container = Record<string | number, unknown>;

interface Step {
  readonly container: Container;
  readonly key: string | number;
  /** Schema of the container. */
  readonly node: Node;
}

interface Mark {
  readonly owner: Container;
  readonly place: RefutedPlace;
  /** The list, map or object that has lost entries; absent if a whole value was removed. */
  readonly entriesOf?: unknown;
}

/** Placeholder of a removed entry until all removals are known. */
const leftOut = Symbol("left out");

class Mending {
  readonly #root: Container;
  readonly #refuted = new Refuted();
  readonly #marks: Mark[] = [];
  readonly #lists = new Set<unknown[]>();

  constructor(root: Container) {
    this.#root = root;
  }

  leaveOut({ loc, type }: Problem): void {
    const steps = this.#stepsTo(loc);
    if (steps === null) return;
    if (type === "extra_forbidden") {
      this.#forget(steps, loc);
      return;
    }
    for (let at = steps.length - 1; at >= 0; at--) if (this.#leaveOutAt(steps, at, loc)) return;
    // `metadata` is the only required field of the root.
    this.#root.metadata = { name: "-" };
  }

  /** Returns null if an ancestor was removed already. */
  #stepsTo(loc: Path): Step[] | null {
    const steps: Step[] = [];
    let value: unknown = this.#root;
    let node = manifestSchema as unknown as Node;
    for (const key of loc) {
      if (!isContainer(value)) return null;
      steps.push({ container: value, key, node });
      value = value[key];
      node = node.properties?.[key] ?? node.items ?? (node.additionalProperties || {});
    }
    return value === leftOut ? null : steps;
  }

  /** Removes an unknown key. If it was a misspelling, the intended field is unknown too. */
  #forget(steps: readonly Step[], loc: Path): void {
    const { container, key, node } = steps.at(-1) as Step;
    delete container[key];
    const above = steps.at(-2);
    // The container is empty because of the removal.
    if (above !== undefined && Object.keys(container).length === 0)
      this.#mark({ owner: above.container, entriesOf: container, place: { path: loc.slice(0, -1), what: "value" } });
    const near = nearest(String(key), Object.keys(node.properties ?? {}));
    if (near !== null) this.#mark({ owner: container, place: { path: [...loc.slice(0, -1), near], what: "value" } });
  }

  /** Removes or resets the value at this step; returns false if its parent must be removed instead. */
  #leaveOutAt(steps: readonly Step[], at: number, loc: Path): boolean {
    const { container, key, node } = steps[at] as Step;
    const field = node.properties?.[key];
    if (field !== undefined) {
      if (field.default === undefined && node.required?.includes(String(key))) return false;
      if (field.default === undefined) delete container[key];
      else container[key] = structuredClone(field.default);
      this.#mark({ owner: container, place: { path: loc.slice(0, at + 1), what: "value" } });
      return true;
    }
    const above = steps[at - 1];
    if (above === undefined) return false;
    if (Array.isArray(container)) {
      container[key as number] = leftOut;
      this.#lists.add(container);
    } else delete container[key];
    this.#mark({ owner: above.container, entriesOf: container, place: { path: loc.slice(0, at), what: "entries" } });
    return true;
  }

  /** Records the position in the numbering of the source, from before any removal. */
  #mark({ owner, place, entriesOf }: Mark): void {
    const path = this.#refuted.locate(this.#root, place.path);
    this.#marks.push({ owner, entriesOf, place: { ...place, path } });
  }

  /** Removes the marked entries from their lists. */
  shorten(): void {
    for (const list of this.#lists) this.#refuted.shorten(list, (entry) => entry !== leftOut);
    this.#lists.clear();
  }

  refuted(): Refuted {
    for (const { owner, place, entriesOf } of this.#marks) {
      const key =
        entriesOf === undefined
          ? (place.path.at(-1) as string)
          : Object.keys(owner).find((each) => owner[each] === entriesOf);
      if (key !== undefined) this.#refuted.mark(owner, key, place);
    }
    return this.#refuted;
  }
}

function isContainer(value: unknown): value is Container {
  return typeof value === "object" && value !== null;
}
