import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Env } from "../../bus/env.ts";
import { openObjects } from "../../governance/objects/open-objects.ts";
import { SecretMask, Secrets } from "../../governance/secret-mask.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import { storeConfigOf } from "../../governance/settings/store-config.ts";
import { NoBackup } from "../../storage/backup/contents.ts";
import { MigrationRefused } from "../../storage/migrate.ts";
import { MoveRefused, moveInstall } from "../../storage/move-install.ts";
import { openFsStore } from "../../storage/objects/fs.ts";
import { type DataDirLock, lockDataDir } from "../../storage/sqlite/data-dir-lock.ts";
import { allMigrations } from "../all-migrations.ts";
import { loadDeployment } from "../deployment.ts";
import { reasonOf, secondsOf } from "./backup.ts";
import { type Command, failed } from "./command.ts";

/** `svc move`: copies a stopped install from SQLite to Postgres. */
export const moveCommand: Command = {
  summary:
    "Copy a stopped install from SQLite to Postgres, with its objects; the same call continues an interrupted one.",
  options: {
    from: { type: "string", value: "sqlite:DIR", help: "The data directory of the stopped install." },
    to: { type: "string", value: "URL", help: "The Postgres database; SVC_DATABASE_URL if absent." },
    objects: { type: "string", value: "DIR", help: "The folder of its objects (DIR/objects)." },
  },
  positionals: [],
  async run({ options }, { env, environment }) {
    const [, dir = ""] = /^sqlite:(.+)$/s.exec(String(options.from ?? "")) ?? [];
    if (dir === "") return failed(2, "usage", "Refused: --from must be sqlite:DIR, with the data directory to move.");
    const url = typeof options.to === "string" ? options.to : environment.SVC_DATABASE_URL;
    const { settings, plugins } = await loadDeployment({
      ...environment,
      ...(url !== undefined && { SVC_DATABASE_URL: url }),
    });
    const config = storeConfigOf(settings);
    if (config.engine !== "postgres")
      return failed(2, "usage", "Refused: --to or SVC_DATABASE_URL must be a postgres:// URL.");
    const folder = resolve(typeof options.objects === "string" ? options.objects : join(dir, "objects"));
    const path = join(resolve(dir), "svc.db");
    if (!existsSync(path)) return failed(2, "nothing_to_move", `Refused: ${path} does not exist.`);
    const startedAt = env.monotonic();
    let lock: DataDirLock | undefined;
    try {
      try {
        lock = lockDataDir(dir);
      } catch (error) {
        return failed(2, "source_in_use", `Refused: ${reasonOf(error, settings)}`);
      }
      const objects = objectsOf(settings, folder, env);
      const moved = await moveInstall({ from: path, to: config.postgres, objects, known: allMigrations(plugins) });
      const ms = Math.round(env.monotonic() - startedAt);
      const left =
        moved.leftOut.length === 0
          ? ""
          : `\nNot moved, because svc does not create them: the tables ${moved.leftOut.join(", ")}.`;
      return {
        code: 0,
        json: { ok: true, ...moved, left_out: moved.leftOut, ms },
        text: `Moved and verified${moved.isContinued ? ", after an earlier part" : ""}: ${moved.rows} rows of ${moved.tables} tables and ${moved.objects} objects, in ${secondsOf(ms)}.${left}
Start no server on ${dir} again: both installs would continue the same runs.`,
      };
    } catch (error) {
      if (error instanceof MoveRefused || error instanceof MigrationRefused)
        return failed(2, "move_refused", `Refused: ${error.message}.`);
      if (error instanceof NoBackup) return failed(1, "move_differs", `The move failed: ${error.message}.`);
      return failed(
        1,
        "move_failed",
        `The move was interrupted: ${reasonOf(error, settings)}
No server starts on the incomplete target: run the same command again to continue.`,
      );
    } finally {
      lock?.release();
    }
  },
};

/** Returns the stores of the objects; null if they stay in their folder, or there are none. */
function objectsOf(settings: Settings, folder: string, env: Env) {
  const isThere = existsSync(folder);
  const stays = settings.objectStore === "fs" && resolve(settings.objectStorePath) === folder;
  if (!isThere || stays) return null;
  if (settings.objectStore === "memory")
    throw new MoveRefused(`SVC_OBJECT_STORE=memory would lose the objects in ${folder}`);
  return { from: openFsStore(folder, env), to: openObjects(settings, env, new Secrets(settings, new SecretMask([]))) };
}
