import { isDeepStrictEqual } from "node:util";
import type { Unbuilt } from "../fields/fields.ts";
import { parseManifest } from "../parse/parse.ts";
import { type Path, type Problem, writePath } from "../problems.ts";
import { type Manifest, manifestSchema } from "../schema/manifest.ts";

// Collects the fields that are marked as unbuilt.

interface UnbuiltField extends Unbuilt {
  readonly path: string;
}

interface Node {
  readonly properties?: Readonly<Record<string, Node>>;
  readonly unbuilt?: Unbuilt;
}

const marked = marksOf(manifestSchema as Node, []);

/** Fields that are refused when they differ from their default, without fields inside of these. */
export const unbuiltFields: readonly UnbuiltField[] = marked.filter(
  ({ path }) => !marked.some((other) => path.startsWith(`${other.path}.`)),
);

/**
 * Defaults that promise behavior which does not exist yet. They are accepted; validate-manifest and the documentation
 * report them.
 */
export const unbuiltDefaults: readonly { readonly path: string; readonly note: string }[] = marked.flatMap(
  ({ path, promises }) => (promises === undefined ? [] : [{ path, note: promises }]),
);

/** Returns a problem for each unbuilt field that differs from its default, at the innermost differing field. */
export function unbuiltProblems(manifest: Manifest): Problem[] {
  defaults ??= parseManifest({ metadata: { name: "defaults" } });
  return unbuiltFields.flatMap(({ path, but }) => {
    const loc = path.split(".");
    const value = at(manifest, loc);
    if (but && typeof value === "string" && new RegExp(but.pattern).test(value)) return [];
    return differences(value, at(defaults, loc), loc).map((where) => ({
      loc: where,
      msg: `${writePath(where)} is not supported by this version.`,
      type: "unsupported" as const,
    }));
  });
}

let defaults: Manifest | undefined;

function marksOf({ unbuilt, properties = {} }: Node, path: readonly string[]): UnbuiltField[] {
  const own = unbuilt === undefined ? [] : [{ ...unbuilt, path: path.join(".") }];
  return [...own, ...Object.entries(properties).flatMap(([key, field]) => marksOf(field, [...path, key]))];
}

function at(value: unknown, path: readonly string[]): unknown {
  return path.reduce((inner, key) => (inner as Record<string, unknown>)[key], value);
}

function differences(value: unknown, byDefault: unknown, loc: Path): Path[] {
  if (isDeepStrictEqual(value, byDefault)) return [];
  if (!isObject(value) || !isObject(byDefault)) return [loc];
  const keys = Object.keys(value);
  return keys.flatMap((key) => differences(value[key], byDefault[key], [...loc, key]));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
