import { storeConfigOf } from "../../governance/settings/store-config.ts";
import { allMigrations } from "../../host/all-migrations.ts";
import { loadDeployment } from "../../host/deployment.ts";
import { migrate } from "../../storage/migrate.ts";
import type { Env } from "./server.ts";

/** Adds the tables of plugins to a database, which copied databases lack. */
export async function migratePlugins(env: Env): Promise<void> {
  const { settings, plugins } = await loadDeployment(env);
  await migrate(storeConfigOf(settings), { target: "head", downgrade: false }, allMigrations(plugins));
}
