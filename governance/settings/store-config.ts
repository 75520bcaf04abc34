import { type StoreConfig, storeConfig } from "../../storage/store/config.ts";
import { clusterConfigOf } from "./cluster-settings.ts";
import type { Settings } from "./settings.ts";

/** Returns the configuration of the database. */
export function storeConfigOf(settings: Settings): StoreConfig {
  return storeConfig(settings.databaseUrl, settings.dataDir, {
    poolSize: settings.dbPoolSize,
    maxOverflow: settings.dbMaxOverflow,
    poolTimeoutSeconds: settings.dbPoolTimeoutSeconds,
    prePing: settings.dbPoolPrePing,
    connectTimeoutSeconds: settings.dbConnectTimeoutSeconds,
    preparedStatements: settings.dbPreparedStatements,
    shared: clusterConfigOf(settings) !== null,
  });
}
