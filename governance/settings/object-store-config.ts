import type { ObjectStoreConfig } from "../../storage/objects/open.ts";
import type { Settings } from "./settings.ts";

/** Returns the configuration of the object store. */
export function objectStoreConfigOf({ objectStore, objectStorePath }: Settings): ObjectStoreConfig {
  return objectStore === "fs" ? { kind: "fs", path: objectStorePath } : { kind: "memory" };
}

/** True if all threads see the objects that one thread stores. */
export function objectsAreShared({ objectStore }: Settings): boolean {
  return objectStore !== "memory";
}
