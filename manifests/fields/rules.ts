import type { Path, ProblemType } from "../problems.ts";

/** What fields cannot be refused for alone. A rule says where the manifest breaks it; its sentence goes on after the path. */
export interface Rule<S> {
  readonly says: string;
  /** Conflict unless it says otherwise. */
  readonly type?: ProblemType;
  readonly broken: (spec: S, manifestName: string) => readonly Path[];
}

/** The path, when the rule is broken. */
export function when(broken: boolean, path: string): Path[] {
  return broken ? [path.split(".")] : [];
}

/** The entries of a list that break a rule; `key` is the field of the entry that the problem is told of. */
export function each<T>(
  path: string | Path,
  entries: readonly T[],
  broken: (entry: T) => boolean,
  ...key: string[]
): Path[] {
  const base = typeof path === "string" ? path.split(".") : path;
  return entries.flatMap((entry, at) => (broken(entry) ? [[...base, at, ...key]] : []));
}

/** Entries of `spec.<field>` are told apart by `key`. */
export function unique<F extends string, K extends string>(field: F, key: K): Rule<Readonly<Record<F, Named<K>>>> {
  return uniqueIn(`spec.${field}`, key, (spec: Readonly<Record<F, Named<K>>>) => spec[field]);
}

/** The same for a list that lies deeper. */
export function uniqueIn<S, K extends string>(path: string, key: K, list: (spec: S) => Named<K>): Rule<S> {
  return { says: "is listed twice", broken: (spec) => twice(path, key, list(spec), (name) => name) };
}

/** The same for names whose case does not matter. */
export function uniqueAsideCase<S, K extends string>(path: string, key: K, list: (spec: S) => Named<K>): Rule<S> {
  return {
    says: "is listed twice (upper and lower case are the same)",
    broken: (spec) => twice(path, key, list(spec), (name) => name.toLowerCase()),
  };
}

type Named<K extends string> = readonly Readonly<Record<K, string>>[];

/** Every entry whose name an earlier one has. */
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

/** The sentence of a text that must have a sign in it. */
export const blank = "is blank";

/** Whether there are only spaces in it. */
export function isBlank(text: string): boolean {
  return text.trim() === "";
}
