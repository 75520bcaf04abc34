import type { Path, ProblemType } from "../problems.ts";

/**
 * A condition that no single field can check. It returns the paths where the manifest breaks it; `says` continues a
 * sentence after the path.
 */
export interface Rule<S> {
  readonly says: string;
  /** `conflict` by default. */
  readonly type?: ProblemType;
  readonly broken: (spec: S, manifestName: string) => readonly Path[];
}

/** Returns the path if the rule is broken. */
export function when(broken: boolean, path: string): Path[] {
  return broken ? [path.split(".")] : [];
}

/** Returns the paths of list entries that break a rule; `key` is the field of the entry that the problem names. */
export function each<T>(
  path: string | Path,
  entries: readonly T[],
  broken: (entry: T) => boolean,
  ...key: string[]
): Path[] {
  const base = typeof path === "string" ? path.split(".") : path;
  return entries.flatMap((entry, at) => (broken(entry) ? [[...base, at, ...key]] : []));
}

/** Requires distinct values of `key` in the entries of `spec.<field>`. */
export function unique<F extends string, K extends string>(field: F, key: K): Rule<Readonly<Record<F, Named<K>>>> {
  return uniqueIn(`spec.${field}`, key, (spec: Readonly<Record<F, Named<K>>>) => spec[field]);
}

/** Requires distinct values in a nested list. */
export function uniqueIn<S, K extends string>(path: string, key: K, list: (spec: S) => Named<K>): Rule<S> {
  return { says: "is listed twice", broken: (spec) => twice(path, key, list(spec), (name) => name) };
}

/** Requires distinct names, ignoring case. */
export function uniqueAsideCase<S, K extends string>(path: string, key: K, list: (spec: S) => Named<K>): Rule<S> {
  return {
    says: "is listed twice (upper and lower case are the same)",
    broken: (spec) => twice(path, key, list(spec), (name) => name.toLowerCase()),
  };
}

type Named<K extends string> = readonly Readonly<Record<K, string>>[];

/** Returns every entry whose name an earlier entry has. */
function twice<K extends string>(path: string, key: K, entries: Named<K>, fold: (name: string) => string): Path[] {
  const seen = new Set<string>();
  return each(
    path,
    entries,
    (entry) => {
      const name = fold(entry[key]);
      return seen.size === seen.add(name).size;
    },
    key,
  );
}

/** Message for a text without visible characters. */
export const blank = "is blank";

/** True if the text has only whitespace. */
export function isBlank(text: string): boolean {
  return text.trim() === "";
}
