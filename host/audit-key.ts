import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Logger } from "pino";
import type { Env } from "../bus/env.ts";
import { type Settings, withAuditKey } from "../governance/settings/settings.ts";
import { makeDirectories } from "../storage/store/directories.ts";

/** Name of the file in the data directory that contains the key of the audit chain. */
const fileName = "audit.key";

/** Returns the settings with the key of the data directory if they name none. Makes the key at the first start. */
export function withStoredAuditKey(settings: Settings, env: Pick<Env, "id">, log: Pick<Logger, "warn">): Settings {
  if (settings.auditKey.length > 0) return settings;
  const stored = readAuditKey(settings) ?? makeKey(settings, env);
  if (settings.environment === "production")
    log.warn(
      "the audit chain is signed with a key in SVC_DATA_DIR: who can change the database may read it too; set SVC_AUDIT_KEY",
    );
  return withAuditKey(settings, stored);
}

/** Returns the key of the data directory; null if there is none. */
export function readAuditKey({ dataDir }: Pick<Settings, "dataDir">): string | null {
  try {
    const key = readFileSync(join(dataDir, fileName), "utf8").trim();
    return key === "" ? null : key;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

function makeKey({ dataDir }: Pick<Settings, "dataDir">, env: Pick<Env, "id">): string {
  makeDirectories(dataDir);
  const key = env.id() + env.id();
  // A draft first: a file that a crash leaves half-written would stop every later start.
  const draft = join(dataDir, `${fileName}.${env.id()}`);
  writeFileSync(draft, `${key}\n`, { mode: 0o600, flag: "wx", flush: true });
  renameSync(draft, join(dataDir, fileName));
  return key;
}
