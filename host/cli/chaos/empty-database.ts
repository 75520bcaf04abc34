import { errorText } from "../../../governance/settings/problem-lines.ts";
import type { Environment } from "../../../governance/settings/settings.ts";
import { storeConfigOf } from "../../../governance/settings/store-config.ts";
import { currentRevision, migrate } from "../../../storage/migrate.ts";
import { allMigrations } from "../../all-migrations.ts";
import { loadDeployment } from "../../deployment.ts";

/** Migrates an empty database. Returns why it cannot be used; null if it can. */
export async function prepareDatabase(environment: Environment): Promise<string | null> {
  const { settings, plugins } = await loadDeployment(environment);
  const config = storeConfigOf(settings);
  try {
    if ((await currentRevision(config)) !== "base")
      return "The database is not empty: svc chaos needs a new one, which it fills with its own rows.";
    await migrate(config, { target: "head", downgrade: false }, allMigrations(plugins));
    return null;
  } catch (error) {
    return `The database cannot be used: ${errorText(error)}`;
  }
}
