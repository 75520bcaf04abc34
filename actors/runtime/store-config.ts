import type { Settings } from "../../governance/settings.ts";
import { type StoreConfig, storeConfig } from "../../storage/config.ts";
import type { ObjectStoreConfig } from "../../storage/objects/object-store.ts";

/** Where rows are kept, as the settings say. */
export function storeConfigOf(settings: Settings): StoreConfig {
  return storeConfig(settings.databaseUrl, settings.dataDir, {
    poolSize: settings.dbPoolSize,
    maxOverflow: settings.dbMaxOverflow,
    poolTimeoutSeconds: settings.dbPoolTimeoutSeconds,
    prePing: settings.dbPoolPrePing,
    connectTimeoutSeconds: settings.dbConnectTimeoutSeconds,
    preparedStatements: settings.dbPreparedStatements,
  });
}

/** Where objects are kept, as the settings say. */
export function objectStoreConfig(settings: Settings): ObjectStoreConfig {
  if (settings.objectStore === "memory") return { kind: "memory" };
  return { kind: "fs", path: settings.objectStorePath };
}
