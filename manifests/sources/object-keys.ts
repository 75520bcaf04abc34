import { tenantSegment } from "../../storage/objects/keys.ts";

// Where manifests and their texts lie in the object store. No tenant's segment is `_shared`.

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
