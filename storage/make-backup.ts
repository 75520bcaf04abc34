import { existsSync, readdirSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { Env } from "../bus/env.ts";
import { type Contents, contentsName, newContents, objectsFolder, type SavedFile } from "./backup/contents.ts";
import type { DatabaseSnapshot } from "./backup/database.ts";
import { FileBeingSaved, flush } from "./backup/saved-file.ts";
import { fileKey, filesFolder } from "./files/file-store.ts";
import type { ObjectStore } from "./objects/object-store.ts";
import type { StoreConfig } from "./store/config.ts";
import { makeDirectories } from "./store/directories.ts";
import { holdMs, holdRenewMs } from "./store/object-hold.ts";

/** What is backed up, and where to. */
export interface BackupOf {
  readonly config: StoreConfig;
  /** Null where there are none: they are kept in memory only, or their directory is not there. */
  readonly objects: ObjectStore | null;
  readonly env: Env;
  readonly version: string;
  /** A directory that is not there, or empty. */
  readonly target: string;
}

/** The place of a backup is taken. */
export class TargetTaken extends Error {
  override readonly name = "TargetTaken";
}

/** Objects that are copied side by side. */
const objectsAtOnce = 8;
const keysAtOnce = 1_000;
/** Comes after the keys of all files, whatever their tenants are called: it ends in what is in no key, and behind all that is. */
const afterFiles = `${filesFolder}\x7f`;

/**
 * Copies a database, at one moment, and then the objects that it names, while a server may go on with both. Until all is on the disk it lies
 * under another name, and what a failure leaves is removed.
 */
export async function makeBackup(of: BackupOf): Promise<Contents> {
  const { config, env } = of;
  const target = resolve(of.target);
  if (existsSync(target) && readdirSync(target).length > 0)
    throw new TargetTaken(`${target} already exists and is not empty.`);
  const id = env.id();
  const draft = `${target}.draft-${id.slice(0, 8)}`;
  const snapshot = await openSnapshot(config, id);
  try {
    makeDirectories(dirname(target));
    await mkdir(draft, { mode: 0o700 });
    const contents = await fill(draft, id, of, snapshot);
    await rename(draft, target);
    await flush(dirname(target));
    return contents;
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    throw error;
  } finally {
    await snapshot.close();
  }
}

async function openSnapshot(config: StoreConfig, id: string): Promise<DatabaseSnapshot> {
  if (config.engine === "sqlite") return (await import("./sqlite/snapshot.ts")).openSqliteSnapshot(config.path, id);
  return (await import("./postgres/snapshot.ts")).openPostgresSnapshot(config.postgres, id);
}

async function fill(draft: string, id: string, { objects, env, version }: BackupOf, snapshot: DatabaseSnapshot) {
  const taken_at = new Date(env.now()).toISOString();
  const held = keepHeld(snapshot, env);
  try {
    const database = await snapshot.save(draft);
    const copied = await copyObjects(draft, objects, snapshot, held.check);
    const contents = newContents({ id, version, taken_at, ...database, ...copied });
    const list = await FileBeingSaved.create(draft, contentsName);
    await list.write(Buffer.from(`${JSON.stringify(contents, null, 1)}\n`));
    await list.close();
    await flush(draft);
    return contents;
  } finally {
    held.end();
  }
}

/** Renews the hold on objects for as long as they are copied; `check` throws when it has run out. */
function keepHeld(snapshot: DatabaseSnapshot, env: Env) {
  let heldAt = env.monotonic();
  const renew = (): void => {
    const at = env.monotonic();
    const renewed = (): void => {
      heldAt = at;
    };
    // One that fails is tried again: a hold lasts for much longer.
    void snapshot.hold().then(renewed, () => {});
    next = env.timer(holdRenewMs, renew);
  };
  let next = env.timer(holdRenewMs, renew);
  return {
    check(): void {
      if (env.monotonic() - heldAt > holdMs)
        throw new Error("the database was unreachable too long: objects may have been deleted before they were copied");
    },
    end: () => next.cancel(),
  };
}

async function copyObjects(draft: string, store: ObjectStore | null, snapshot: DatabaseSnapshot, check: () => void) {
  const objects: SavedFile[] = [];
  const missing: string[] = [];
  const copy = async (key: string, isNamed: boolean): Promise<void> => {
    check();
    const bytes = store === null ? null : await store.get(key);
    if (bytes === null) {
      // What the operator has taken away meanwhile is no loss.
      if (isNamed) missing.push(key);
      return;
    }
    const file = await FileBeingSaved.create(draft, `${objectsFolder}/${key}`);
    try {
      await file.write(bytes);
    } finally {
      objects.push(await file.close());
    }
  };
  for await (const page of snapshot.keptFiles())
    await sideBySide(page, ({ tenant_id, file_id }) => copy(fileKey(tenant_id, file_id), true));
  if (store === null) return { objects, missing };
  // Those of the operator. Of files the snapshot says which there are: others were made later, or are to be deleted.
  for (let after = ""; ; ) {
    const keys = await store.list("", keysAtOnce, after);
    await sideBySide(keys, async (key) => (key.startsWith(filesFolder) ? undefined : copy(key, false)));
    const last = keys.at(-1);
    if (last === undefined) break;
    after = last.startsWith(filesFolder) ? afterFiles : last;
  }
  return { objects, missing };
}

async function sideBySide<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values();
  await Promise.all(
    Array.from({ length: objectsAtOnce }, async () => {
      for (const item of left) await work(item);
    }),
  );
}
