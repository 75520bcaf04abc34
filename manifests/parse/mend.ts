import { nearest } from "../../bus/nearest.ts";
import { problemsMax } from "../../bus/schema-validator.ts";
import type { Path, Problem } from "../problems.ts";
import { type Manifest, manifestSchema } from "../schema/manifest.ts";
import { Refuted, type RefutedPlace } from "../schema/refuted.ts";
import { fieldProblems } from "./check-fields.ts";

/** What is left out may leave a list too short or an object without what it must have, which is left out then. */
const roundsMax = 8;

/**
 * Makes a manifest that fits the schema of one that does not: what was refused is left out, or has its default. Changes `draft`. Null where
 * that leaves nothing worth looking at.
 */
export function mend(
  draft: unknown,
  problems: readonly Problem[],
): { readonly manifest: Manifest; readonly refuted: Refuted } | null {
  // The walk that found as many may not have looked at everything.
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
  /** Of the container. */
  readonly node: Node;
}

interface Mark {
  readonly owner: Container;
  readonly place: RefutedPlace;
  /** The list, map or object of which something is gone; absent where a value has. */
  readonly entriesOf?: unknown;
}

/** In the place of an entry until all are known that go. */
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
    // Nothing else at the root must be written.
    this.#root.metadata = { name: "-" };
  }

  /** Null where something above has gone already. */
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

  /** An unknown key. If it was a slip, nobody knows what the field is that was meant. */
  #forget(steps: readonly Step[], loc: Path): void {
    const { container, key, node } = steps.at(-1) as Step;
    delete container[key];
    const above = steps.at(-2);
    // It is empty because of that.
    if (above !== undefined && Object.keys(container).length === 0)
      this.#mark({ owner: above.container, entriesOf: container, place: { path: loc.slice(0, -1), what: "value" } });
    const near = nearest(String(key), Object.keys(node.properties ?? {}));
    if (near !== null) this.#mark({ owner: container, place: { path: [...loc.slice(0, -1), near], what: "value" } });
  }

  /** Whether what stands at that step can go without more. */
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

  /** The place is told in the numbering of the source, in which nothing has gone yet. */
  #mark({ owner, place, entriesOf }: Mark): void {
    const path = this.#refuted.locate(this.#root, place.path);
    this.#marks.push({ owner, entriesOf, place: { ...place, path } });
  }

  /** Takes the entries out of lists that are to go. */
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
