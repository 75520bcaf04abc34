import { link, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Env } from "../../../bus/env.ts";
import { type PluginErrorCode, SvcError } from "../../../bus/errors.ts";
import { type Settings, settingOf } from "../../../governance/settings/settings.ts";
import { shopSessionKeys } from "./shop-settings.ts";

/** A cluster has no key for the threads of shoppers. */
export const shopKeyMissing: PluginErrorCode = {
  code: "shop_key_missing",
  status: 503,
  help: "The server has no key for the threads of shoppers; see SVC_SHOP_SESSION_KEY.",
};

/** Name of the file in the data directory with the key of shoppers' threads. */
const fileName = "shop-session.key";

/** The keys of each data directory; all threads of a process find the same file. */
const made = new Map<string, Promise<readonly string[]>>();

/**
 * Returns the keys that sign the threads of shoppers: those of SVC_SHOP_SESSION_KEY, or one in the data directory, which is made at the
 * first use. Refuses with shop_key_missing in a cluster without keys, because its hosts share no data directory.
 */
export async function sessionKeysOf(settings: Settings, env: Pick<Env, "id">): Promise<readonly string[]> {
  const named = settingOf(settings, shopSessionKeys);
  if (named.length > 0) return named;
  if (settings.clusterKey.length > 0) throw new SvcError(shopKeyMissing);
  const { dataDir } = settings;
  let keys = made.get(dataDir);
  if (keys === undefined) {
    keys = storedKey(dataDir, env);
    made.set(dataDir, keys);
    keys.catch(() => made.delete(dataDir));
  }
  return keys;
}

async function storedKey(dataDir: string, env: Pick<Env, "id">): Promise<readonly string[]> {
  const path = join(dataDir, fileName);
  return [(await readKey(path)) ?? (await makeKey(dataDir, path, env))];
}

async function readKey(path: string): Promise<string | null> {
  try {
    return (await readFile(path, "utf8")).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

/** Makes the file whole at once: the link fails if another thread was first, whose key then counts. */
async function makeKey(dataDir: string, path: string, env: Pick<Env, "id">): Promise<string> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const key = env.id() + env.id();
  const draft = `${path}.${env.id()}`;
  await writeFile(draft, key, { mode: 0o600, flag: "wx", flush: true });
  try {
    await link(draft, path);
    return key;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    return (await readKey(path)) ?? key;
  } finally {
    await rm(draft, { force: true });
  }
}
