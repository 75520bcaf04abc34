import type { ObjectStoreConfig } from "../../storage/objects/open.ts";
import type { Settings } from "./settings.ts";

/** Where the settings say that objects are kept. */
export function objectStoreConfigOf({ objectStore, objectStorePath }: Settings): ObjectStoreConfig {
  return objectStore === "fs" ? { kind: "fs", path: objectStorePath } : { kind: "memory" };
}
