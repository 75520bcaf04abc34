import { SecretMask } from "../../governance/secret-mask.ts";
import { atPlace, dataPlace } from "../../governance/settings/places.ts";
import { errorText } from "../../governance/settings/problem-lines.ts";
import { storeConfigOf } from "../../governance/settings/store-config.ts";
import { MigrationRefused, migrate } from "../../storage/migrate.ts";
import { prepareVectorIndex } from "../../storage/postgres/vector-index.ts";
import { type DataDirLock, lockDataDir } from "../../storage/sqlite/data-dir-lock.ts";
import { allMigrations } from "../all-migrations.ts";
import { loadDeployment } from "../deployment.ts";
import { type Command, failed } from "./command.ts";

/** `svc migrate`: migrates the schema of SVC_DATABASE_URL to a revision. */
export const migrateCommand: Command = {
  summary: "Migrate the database schema to a revision (the newest).",
  options: {
    downgrade: { type: "boolean", help: "Migrate down to an older revision." },
    down: { type: "boolean", help: "The same." },
  },
  positionals: ["[REVISION]"],
  async run({ options, positionals: [target = "head"] }, { environment }) {
    const { settings, plugins } = await loadDeployment(environment);
    const downgrade = options.downgrade === true || options.down === true;
    let lock: DataDirLock | undefined;
    try {
      const config = storeConfigOf(settings);
      // Fails if a server is running on the data directory.
      if (config.engine === "sqlite") lock = await atPlace(dataPlace(settings), () => lockDataDir(settings.dataDir));
      const { from, to, applied } = await migrate(config, { target, downgrade }, allMigrations(plugins));
      // The role that migrates may create what the role of the server may not.
      if (config.engine === "postgres" && !downgrade && settings.memoryEmbedder !== "none")
        await prepareVectorIndex(config.postgres, settings.memoryEmbeddingDim);
      const steps =
        applied.length === 0 ? "nothing to do" : `${downgrade ? "undone" : "applied"} ${applied.join(", ")}`;
      return { code: 0, json: { ok: true, from, to, applied }, text: `Schema at ${to}: ${steps}.` };
    } catch (error) {
      if (error instanceof MigrationRefused) return failed(2, "migration_refused", `Refused: ${error.message}.`);
      const reason = new SecretMask(settings.secretValues).recorded.text(errorText(error));
      return failed(1, "migration_failed", `The migration failed: ${reason}`);
    } finally {
      lock?.release();
    }
  },
};
