import { openObjects } from "../../governance/objects/open-objects.ts";
import { SecretMask, Secrets } from "../../governance/secret-mask.ts";
import { atPlace, dataPlace } from "../../governance/settings/places.ts";
import { storeConfigOf } from "../../governance/settings/store-config.ts";
import { NoBackup } from "../../storage/backup/contents.ts";
import { checkBackup, restoreBackup, TargetNotEmpty } from "../../storage/restore-backup.ts";
import { type DataDirLock, lockDataDir } from "../../storage/sqlite/data-dir-lock.ts";
import { allMigrations } from "../all-migrations.ts";
import { loadDeployment } from "../deployment.ts";
import { reasonOf, secondsOf, sizeOf, sumsOf } from "./backup.ts";
import { type Command, failed } from "./command.ts";

/** `svc restore`: restores a backup into an empty deployment. */
export const restoreCommand: Command = {
  summary: "Restore a backup into an empty deployment, after checking all its digests.",
  options: {
    check: { type: "boolean", help: "Only check the digests of the backup; nothing is changed." },
    resume: { type: "boolean", help: "Resume open durable runs when a server starts; otherwise they are held." },
  },
  positionals: ["DIR"],
  async run({ options, positionals: [directory = ""] }, { env, environment }) {
    const { settings, plugins } = await loadDeployment(environment);
    const config = storeConfigOf(settings);
    const startedAt = env.monotonic();
    let lock: DataDirLock | undefined;
    try {
      if (options.check !== true && config.engine === "sqlite") {
        try {
          lock = await atPlace(dataPlace(settings), () => lockDataDir(settings.dataDir));
        } catch (error) {
          // Nothing was changed yet, so there is nothing to repeat.
          return failed(2, "target_in_use", `Refused: ${reasonOf(error, settings)}`);
        }
      }
      const secrets = new Secrets(settings, new SecretMask([]));
      const isResumed = options.resume === true;
      const { contents, leftOut, openRuns } =
        options.check === true
          ? { contents: await checkBackup(directory), leftOut: [], openRuns: 0 }
          : await restoreBackup({
              directory,
              config,
              objects: settings.objectStore === "memory" ? null : openObjects(settings, env, secrets),
              known: allMigrations(plugins),
              isResumed,
            });
      const { rows, bytes } = sumsOf(contents);
      const { id, engine, taken_at, tables, objects, missing } = contents;
      const what = `${rows} rows of ${tables.length} tables and ${objects.length} objects, ${sizeOf(bytes)}, as of ${taken_at}`;
      const done = options.check === true ? "Whole" : "Restored and verified";
      const ms = env.monotonic() - startedAt;
      return {
        code: 0,
        json: {
          ok: true,
          id,
          engine,
          taken_at,
          tables: tables.length,
          rows,
          objects: objects.length,
          bytes,
          missing,
          left_out: leftOut,
          held: isResumed ? 0 : openRuns,
          ms: Math.round(ms),
        },
        text: `${done}: ${what}, in ${secondsOf(ms)}.${leftOutText(leftOut)}${heldText(openRuns, isResumed)}`,
      };
    } catch (error) {
      if (error instanceof TargetNotEmpty) return failed(2, "target_not_empty", error.message);
      if (error instanceof NoBackup) return failed(1, "no_backup", error.message);
      return failed(
        1,
        "restore_failed",
        `The restore failed: ${reasonOf(error, settings)}
No server starts on the incomplete data: run it again with the same backup.`,
      );
    } finally {
      lock?.release();
    }
  },
};

function heldText(openRuns: number, isResumed: boolean): string {
  if (openRuns === 0) return "";
  const [runs, are, them] = openRuns === 1 ? ["run", "is", "it"] : ["runs", "are", "them"];
  if (isResumed) return `\n${openRuns} durable ${runs} ${are} open and will resume when a server starts.`;
  return `\n${openRuns} durable ${runs} ${are} held, because they may repeat work done since the backup. \`svc runs release\` releases ${them}.`;
}

function leftOutText(tables: readonly string[]): string {
  return tables.length === 0
    ? ""
    : `\nNot restored, because svc does not create them: the tables ${tables.join(", ")}.`;
}
