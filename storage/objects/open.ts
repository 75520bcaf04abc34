import type { Env } from "../../bus/env.ts";
import { openFsStore } from "./fs.ts";
import { openMemoryStore } from "./memory.ts";
import type { ObjectStore } from "./object-store.ts";

/** Location of the objects. */
export type ObjectStoreConfig = { readonly kind: "fs"; readonly path: string } | { readonly kind: "memory" };

/** Opens the object store of a configuration. The fs store creates its directory if absent. */
export function openObjectStore(config: ObjectStoreConfig, env: Env): ObjectStore {
  return config.kind === "fs" ? openFsStore(config.path, env) : openMemoryStore();
}
