import { tenantSegment } from "../../storage/objects/keys.ts";

// Keys of manifests and their texts in the object store. No tenant's segment is `_shared`.

/** Prefix of one tenant's manifests: `manifests/{tenant}/`. */
export function tenantManifestPrefix(tenantId: string): string {
  return `manifests/${tenantSegment(tenantId)}/`;
}

/** Prefix of the manifests for all tenants, which also contains the tenants' folders. */
export const globalManifestPrefix = "manifests/";

/** Key of the tenant's soul prompt. */
export function soulKey(tenantId: string): string {
  return `souls/${tenantSegment(tenantId)}.md`;
}

/** Returns the possible keys of a text that a manifest names; the first existing one is used. */
export function promptKeys(tenantId: string, file: string): readonly [string, string] {
  return [`prompts/${tenantSegment(tenantId)}/${file}`, `prompts/_shared/${file}`];
}
