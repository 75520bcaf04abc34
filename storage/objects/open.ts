import type { Env } from "../../bus/env.ts";
import { openFsStore } from "./fs.ts";
import { openMemoryStore } from "./memory.ts";
import type { ObjectStore } from "./object-store.ts";

/** Where objects are kept. */
export type ObjectStoreConfig = { readonly kind: "fs"; readonly path: string } | { readonly kind: "memory" };

/** The object store of a configuration. The fs one makes its directory when it is not there. */
export function openObjectStore(config: ObjectStoreConfig, env: Env): ObjectStore {
  return config.kind === "fs" ? openFsStore(config.path, env) : openMemoryStore();
}
