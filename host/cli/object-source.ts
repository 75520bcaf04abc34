import type { Env } from "../../bus/env.ts";
import { openKeptObjects } from "../../governance/objects/open-objects.ts";
import { SecretMask, Secrets } from "../../governance/secret-mask.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { ObjectSource } from "../../manifests/sources/texts.ts";
import { openMemoryStore } from "../../storage/objects/memory.ts";
import type { ObjectStore } from "../../storage/objects/object-store.ts";

/** Returns the deployment's objects for a read-only command. Opens the store on first use and never creates it. */
export function objectSourceOf(settings: Settings, env: Env): ObjectSource {
  let store: ObjectStore | null = null;
  const opened = (): ObjectStore => {
    store ??= openKeptObjects(settings, env, new Secrets(settings, new SecretMask([]))) ?? openMemoryStore();
    return store;
  };
  return {
    get: async (key) => opened().get(key),
    list: async (prefix, limit, after) => opened().list(prefix, limit, after),
  };
}
