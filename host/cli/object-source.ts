import { existsSync } from "node:fs";
import type { Env } from "../../bus/env.ts";
import { objectStoreConfigOf } from "../../governance/settings/object-store-config.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { ObjectSource } from "../../manifests/sources/texts.ts";
import type { ObjectStore } from "../../storage/objects/object-store.ts";
import { openObjectStore } from "../../storage/objects/open.ts";

/** Returns the deployment's objects for a read-only command. Opens the store on first use and never creates it. */
export function objectSourceOf(settings: Settings, env: Env): ObjectSource {
  let store: ObjectStore | null = null;
  const opened = (): ObjectStore => {
    const config = objectStoreConfigOf(settings);
    const isThere = config.kind === "fs" && existsSync(config.path);
    store ??= openObjectStore(isThere ? config : { kind: "memory" }, env);
    return store;
  };
  return {
    get: async (key) => opened().get(key),
    list: async (prefix, limit, after) => opened().list(prefix, limit, after),
  };
}
