import type { Problem } from "../problems.ts";
import { manifestSchema } from "./manifest.ts";

interface Node {
  readonly properties: Readonly<Record<string, Node>>;
}

/**
 * Sorts problems in the order of the fields in a manifest. Problems of one field keep their order, and unknown fields
 * come first.
 */
export function inSectionOrder(problems: readonly Problem[]): Problem[] {
  return problems.toSorted((a, b) => rank(a) - rank(b));
}

function rank({ loc: [part, field] }: Problem): number {
  return part === "spec" ? parts.length + fields.indexOf(String(field)) : parts.indexOf(String(part));
}

const { properties } = manifestSchema as unknown as Node;
const parts = Object.keys(properties);
const fields = Object.keys((properties.spec as Node).properties);
