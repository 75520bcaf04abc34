import type { Settings } from "./settings.ts";

/** True if objects are reached over a network. */
export function isBucket({ objectStore }: Pick<Settings, "objectStore">): boolean {
  return objectStore === "s3" || objectStore === "gcs";
}

/** True if all threads see the objects that one thread stores. */
export function objectsAreShared({ objectStore }: Settings): boolean {
  return objectStore !== "memory";
}
