import { existsSync, readdirSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { Env } from "../bus/env.ts";
import { type Contents, contentsName, newContents, objectsFolder, type SavedFile } from "./backup/contents.ts";
import type { DatabaseSnapshot, KeptObject } from "./backup/database.ts";
import { FileBeingSaved, flush } from "./backup/saved-file.ts";
import { artifactKey, artifactsFolder } from "./files/artifact-store.ts";
import { documentFileKey, documentFilesFolder } from "./files/document-files.ts";
import { fileKey, filesFolder } from "./files/file-store.ts";
import type { ObjectStore } from "./objects/object-store.ts";
import type { StoreConfig } from "./store/config.ts";
import { makeDirectories } from "./store/directories.ts";
import { holdMs, holdRenewMs } from "./store/object-hold.ts";

/** Source and target of a backup. */
export interface BackupOf {
  readonly config: StoreConfig;
  /** Null if the objects exist in memory only, or their directory does not exist. */
  readonly objects: ObjectStore | null;
  readonly env: Env;
  readonly version: string;
  /** The target directory; it must be absent or empty. */
  readonly target: string;
}

/** The target directory of a backup exists and is not empty. */
export class TargetTaken extends Error {
  override readonly name = "TargetTaken";
}

/** Number of objects that are copied in parallel. */
const objectsAtOnce = 8;
const keysAtOnce = 1_000;
/** The folders whose objects have rows. */
const foldersWithRows = [artifactsFolder, documentFilesFolder, filesFolder];
/** Sorts after every character of a key. */
const afterKeys = "\x7f";

/**
 * Copies a database as of one moment, and then the objects that it refers to, while a server may use both. The backup
 * has a temporary name until all of it is on disk; a failed backup is deleted.
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

/** Renews the hold on objects while they are copied. `check` throws if the hold has expired. */
function keepHeld(snapshot: DatabaseSnapshot, env: Env) {
  let heldAt = env.monotonic();
  const renew = (): void => {
    const at = env.monotonic();
    const renewed = (): void => {
      heldAt = at;
    };
    // A failed renewal is retried at the next one: a hold lasts far longer than the interval.
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
      // An object of the operator may disappear during the copy; that is not reported.
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
  for await (const page of snapshot.keptObjects()) await sideBySide(page, (object) => copy(keyOf(object), true));
  if (store === null) return { objects, missing };
  // Copies the operator's own objects. Files and artifacts are copied from the snapshot's list only: others are newer, or
  // already deleted.
  for (let after = ""; ; ) {
    const keys = await store.list("", keysAtOnce, after);
    const folderOf = (key: string) => foldersWithRows.find((folder) => key.startsWith(folder));
    await sideBySide(keys, async (key) => (folderOf(key) === undefined ? copy(key, false) : undefined));
    const last = keys.at(-1);
    if (last === undefined) break;
    const folder = folderOf(last);
    after = folder === undefined ? last : folder + afterKeys;
  }
  return { objects, missing };
}

function keyOf({ kind, tenant_id, id, manifest }: KeptObject): string {
  switch (kind) {
    case "files":
      return fileKey(tenant_id, id);
    case "artifacts":
      return artifactKey(tenant_id, { artifact_id: id, manifest });
    case "document_files":
      return documentFileKey(tenant_id, id);
  }
}

async function sideBySide<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values();
  await Promise.all(
    Array.from({ length: objectsAtOnce }, async () => {
      for (const item of left) await work(item);
    }),
  );
}
