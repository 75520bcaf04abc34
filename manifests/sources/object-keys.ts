import { createHash } from "node:crypto";

// Where manifests and their texts lie in the object store. A tenant's id is one segment of a key. Ids of other characters than
// letters, digits, . and - are spelled with ~ and hexadecimal digits, so no two tenants share a key, and none is `_shared`.

/** Manifests of one tenant: `manifests/{tenant}/`. */
export function tenantManifestPrefix(tenantId: string): string {
  return `manifests/${tenantSegment(tenantId)}/`;
}

/** Manifests of every tenant, beside the folders of single tenants. */
export const globalManifestPrefix = "manifests/";

/** The tenant's soul prompt. */
export function soulKey(tenantId: string): string {
  return `souls/${tenantSegment(tenantId)}.md`;
}

/** Where a text that a manifest names may lie; the first that is there is taken. */
export function promptKeys(tenantId: string, file: string): readonly [string, string] {
  return [`prompts/${tenantSegment(tenantId)}/${file}`, `prompts/_shared/${file}`];
}

/** Characters of one segment, as object stores take them. */
const segmentCharsMax = 200;

function tenantSegment(tenantId: string): string {
  const spelled = tenantId.replaceAll(/[^A-Za-z0-9.-]/gu, spellOut);
  // No spelling has two ~ in a row.
  if (spelled.length > segmentCharsMax) return `~~${createHash("sha256").update(tenantId).digest("hex")}`;
  return spelled === "." || spelled === ".." ? spelled.replaceAll(".", spellOut) : spelled;
}

function spellOut(character: string): string {
  return [...Buffer.from(character)].map((byte) => `~${byte.toString(16).padStart(2, "0")}`).join("");
}
