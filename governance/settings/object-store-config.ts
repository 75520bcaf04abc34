import type { ObjectStoreConfig } from "../../storage/objects/open.ts";
import type { Settings } from "./settings.ts";

/** Where the settings say that objects are kept. */
export function objectStoreConfigOf({ objectStore, objectStorePath }: Settings): ObjectStoreConfig {
  return objectStore === "fs" ? { kind: "fs", path: objectStorePath } : { kind: "memory" };
}

/** Whether what one thread puts into the object store is there for all others. */
export function objectsAreShared({ objectStore }: Settings): boolean {
  return objectStore !== "memory";
}
