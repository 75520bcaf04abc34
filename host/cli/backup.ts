import { openKeptObjects } from "../../governance/objects/open-objects.ts";
import { SecretMask, Secrets } from "../../governance/secret-mask.ts";
import { errorText } from "../../governance/settings/problem-lines.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import { storeConfigOf } from "../../governance/settings/store-config.ts";
import type { Outcome } from "../../plugins/command.ts";
import type { Contents } from "../../storage/backup/contents.ts";
import { filesOf } from "../../storage/backup/contents.ts";
import { makeBackup, TargetTaken } from "../../storage/make-backup.ts";
import { loadDeployment } from "../deployment.ts";
import { type Command, failed } from "./command.ts";

/** `svc backup`: copies the data of a deployment; its server may be running. */
export function backupCommand(version: string): Command {
  return {
    summary: "Copy the database and the stored objects into a new directory; the server may keep running.",
    options: {},
    positionals: ["DIR"],
    async run({ positionals: [target = ""] }, io) {
      const { settings } = await loadDeployment(io.environment);
      const { env } = io;
      const startedAt = env.monotonic();
      try {
        const objects = openKeptObjects(settings, env, new Secrets(settings, new SecretMask([])));
        const contents = await makeBackup({ config: storeConfigOf(settings), objects, env, version, target });
        return savedOutcome(contents, target, env.monotonic() - startedAt);
      } catch (error) {
        if (error instanceof TargetTaken) return failed(2, "target_taken", error.message);
        return failed(1, "backup_failed", `The backup failed and was removed: ${reasonOf(error, settings)}`);
      }
    },
  };
}

function savedOutcome(contents: Contents, target: string, ms: number): Outcome {
  const { id, engine, taken_at, tables, objects, missing } = contents;
  const { rows, bytes } = sumsOf(contents);
  const lost =
    missing.length === 0
      ? ""
      : `\nThe bytes of ${missing.length} files are missing: ${missing.slice(0, 3).join(", ")}.`;
  return {
    code: 0,
    json: {
      ok: true,
      id,
      engine,
      taken_at,
      directory: target,
      tables: tables.length,
      rows,
      objects: objects.length,
      bytes,
      missing,
      ms: Math.round(ms),
    },
    text: `${target}: ${rows} rows of ${tables.length} tables and ${objects.length} objects, ${sizeOf(bytes)}, as of ${taken_at}, in ${secondsOf(ms)}.${lost}
It does not contain settings and keys: back them up separately.`,
  };
}

/** Returns the total rows and bytes of a backup. */
export function sumsOf(contents: Contents): { readonly rows: number; readonly bytes: number } {
  return {
    rows: contents.tables.reduce((sum, table) => sum + table.rows, 0),
    bytes: filesOf(contents).reduce((sum, file) => sum + file.bytes, 0),
  };
}

/** Formats a number of bytes. */
export function sizeOf(bytes: number): string {
  return bytes < 1024 ** 3 ? `${(bytes / 1024 ** 2).toFixed(1)} MiB` : `${(bytes / 1024 ** 3).toFixed(2)} GiB`;
}

/** Formats a duration in seconds. */
export function secondsOf(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

/** Returns the reason of a failure, with secrets masked; a full disk gets a plain sentence. */
export function reasonOf(error: unknown, settings: Settings): string {
  const code = causesOf(error).find((each) => noRoom.has(each));
  const reason = new SecretMask(settings.secretValues).recorded.text(errorText(error));
  return code === undefined ? reason : `the disk is full (${code}).`;
}

const noRoom = new Set(["ENOSPC", "EDQUOT", "EFBIG", "SQLITE_FULL"]);

/** Returns the codes of an error and its causes. */
function causesOf(error: unknown): string[] {
  const codes: string[] = [];
  for (let at = error; at instanceof Error; at = at.cause) codes.push(String((at as NodeJS.ErrnoException).code));
  return codes;
}
