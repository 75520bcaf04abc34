import { insertManifestVersionOp } from "../../storage/manifests.ts";
import type { TenantStore, WriteOp } from "../../storage/store.ts";

/** Rows that have nothing but a key: versions of a manifest. */
export function insertVersions(tenant: TenantStore, name: string, ...versions: number[]): WriteOp[] {
  return versions.map((version) =>
    insertManifestVersionOp(tenant, {
      name,
      version,
      manifest: "{}",
      digest: "d",
      created_at: 1,
      created_by: "test",
      comment: "made by a test",
    }),
  );
}
