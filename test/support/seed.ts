import { mkdirSync } from "node:fs";
import { migrate } from "../../storage/migrate.ts";
import type { StoreConfig } from "../../storage/store/config.ts";
import { storeConfig } from "../../storage/store/config.ts";
import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import { hostDatabases } from "./host-databases.ts";
import { runStore } from "./stores.ts";

const batchOps = 100;

/** The SQLite database of a server that has this data directory and is not running. */
export function sqliteIn(dataDir: string): StoreConfig {
  mkdirSync(dataDir, { recursive: true });
  return storeConfig(hostDatabases.get(dataDir) ?? "", dataDir, {
    poolSize: 1,
    maxOverflow: 0,
    poolTimeoutSeconds: 1,
    prePing: false,
    connectTimeoutSeconds: 1,
    preparedStatements: true,
  });
}

/** Writes rows of a tenant into the database of a stopped server; creates the schema if it is missing. */
export async function seed(
  config: StoreConfig,
  tenantId: string,
  ops: (tenant: TenantStore) => readonly WriteOp[],
): Promise<void> {
  await migrate(config, { target: "head", downgrade: false });
  const works: (() => void | Promise<void>)[] = [];
  const { store } = await runStore(config, { after: (work) => void works.push(work) });
  const tenant = store.tenant(tenantId);
  const all = ops(tenant);
  for (let at = 0; at < all.length; at += batchOps) await tenant.write(all.slice(at, at + batchOps));
  for (const work of works) await work();
}
