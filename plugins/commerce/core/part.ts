import type { Plugin } from "../../plugin.ts";

/** What one folder of the shop adds to the plugin: the fields of a plugin, without its name and description. */
export type CommercePart = Omit<Plugin, "name" | "description">;

/** Joins the parts of the folders. Lists follow each other in the order of the parts; names must not repeat. */
export function joined(parts: readonly CommercePart[]): CommercePart {
  const all: Record<string, unknown> = {};
  for (const part of parts)
    for (const [field, value] of Object.entries(part)) {
      const before = all[field];
      if (before === undefined) all[field] = value;
      else if (Array.isArray(before)) all[field] = [...before, ...(value as readonly unknown[])];
      else all[field] = merged(field, before as Names, value as Names);
    }
  return all as CommercePart;
}

type Names = Readonly<Record<string, unknown>>;

function merged(field: string, before: Names, more: Names): Names {
  const twice = Object.keys(more).find((name) => Object.hasOwn(before, name));
  if (twice !== undefined) throw new Error(`${field}.${twice} is in two parts of the plugin commerce`);
  return { ...before, ...more };
}
