import type { Env } from "../../bus/env.ts";
import { openFsStore } from "./fs.ts";
import { type GcsAccess, type GcsPlace, openGcsStore } from "./gcs.ts";
import { openMemoryStore } from "./memory.ts";
import type { ObjectStore } from "./object-store.ts";
import { openS3Store, type S3Access, type S3Place } from "./s3.ts";

/** Location of the objects. A bucket has what requests to it need. */
export type ObjectStoreConfig =
  | { readonly kind: "fs"; readonly path: string }
  | { readonly kind: "memory" }
  | { readonly kind: "s3"; readonly place: S3Place; readonly access: S3Access }
  | { readonly kind: "gcs"; readonly place: GcsPlace; readonly access: GcsAccess };

/** Opens the object store of a configuration. The fs store creates its directory if absent; no other one does anything yet. */
export function openObjectStore(config: ObjectStoreConfig, env: Env): ObjectStore {
  switch (config.kind) {
    case "fs":
      return openFsStore(config.path, env);
    case "memory":
      return openMemoryStore();
    case "s3":
      return openS3Store(config.place, config.access, env);
    case "gcs":
      return openGcsStore(config.place, config.access, env);
  }
}
