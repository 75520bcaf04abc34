import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Contents, filesOf, NoBackup, objectsFolder, readContents } from "./backup/contents.ts";
import type { RestoreTarget } from "./backup/database.ts";
import { checkSaved } from "./backup/saved-file.ts";
import { migrate, olderRevision } from "./migrate.ts";
import type { ObjectStore } from "./objects/object-store.ts";
import type { StoreConfig } from "./store/config.ts";
import type { Migration } from "./store/migration.ts";

/** Source and target of a restore. */
export interface RestoreInto {
  readonly directory: string;
  readonly config: StoreConfig;
  readonly objects: ObjectStore | null;
  /** The migrations of the deployment. */
  readonly known: readonly Migration[];
  /** True if open durable runs resume when a server starts; false to hold them. */
  readonly isResumed: boolean;
}

/** Result of a restore. */
export interface Restored {
  readonly contents: Contents;
  /** Tables of the backup that do not belong to svc and were skipped. */
  readonly leftOut: readonly string[];
  /** Number of durable runs that have not ended. */
  readonly openRuns: number;
}

/** The target of the restore is not empty. Nothing has changed. */
export class TargetNotEmpty extends Error {
  override readonly name = "TargetNotEmpty";
}

const keysAtOnce = 1_000;

/** Compares every file of a backup with its digest. Throws NoBackup. */
export async function checkBackup(directory: string): Promise<Contents> {
  const contents = await readContents(directory);
  for (const file of filesOf(contents)) await checkSaved(directory, file);
  return contents;
}

/**
 * Restores a backup into an empty deployment, after a check of all digests. An interrupted restore leaves the target
 * marked as incomplete; the same backup can then be restored again. Throws NoBackup and TargetNotEmpty.
 */
export async function restoreBackup({ directory, config, objects, known, isResumed }: RestoreInto): Promise<Restored> {
  const contents = await readContents(directory);
  refuseUnfit(contents, config, objects, known);
  const target = await openTarget(config, known);
  try {
    const state = await target.state(contents.id);
    if (typeof state === "object") throw new TargetNotEmpty(`Refused: ${state.reason}.`);
    if (state === "empty" && objects !== null && (await objects.list("", 1)).length > 0)
      throw new TargetNotEmpty("Refused: the object store is not empty.");
    await checkBackup(directory);

    await target.begin(contents.id);
    const leftOut = await target.restore(directory, contents);
    if (objects !== null) await restoreObjects(directory, contents, objects);
    const openRuns = await target.mark(contents, isResumed);
    await target.finish();
    return { contents, leftOut, openRuns };
  } finally {
    await target.close();
  }
}

async function openTarget(config: StoreConfig, known: readonly Migration[]): Promise<RestoreTarget> {
  if (config.engine === "sqlite") return (await import("./sqlite/restore.ts")).openSqliteTarget(config.path);
  // Applies only the backup's own migrations. `svc migrate` applies the newer ones of svc and of plugins.
  const migrateTo = (revisions: readonly string[]) =>
    migrate(
      config,
      { target: "head", downgrade: false, isRestore: true },
      known.filter(({ revision }) => revisions.includes(revision)),
    );
  return (await import("./postgres/restore.ts")).openPostgresTarget(config.postgres, migrateTo);
}

function refuseUnfit(
  { engine, revisions, objects: saved }: Contents,
  config: StoreConfig,
  objects: ObjectStore | null,
  known: readonly Migration[],
): void {
  const names = { sqlite: "SQLite", postgres: "Postgres" };
  if (engine !== config.engine)
    throw new NoBackup(`The backup is from ${names[engine]}, but SVC_DATABASE_URL names ${names[config.engine]}.`);
  const older = olderRevision(revisions);
  if (older !== undefined)
    throw new NoBackup(
      `The backup has revision ${older} of a version before 0.2.0. Restore it with the version that made it.`,
    );
  const strange = revisions.find((revision) => !known.some((one) => one.revision === revision));
  if (strange !== undefined)
    throw new NoBackup(`The backup has revision ${strange}, which neither this version nor a loaded plugin knows.`);
  if (objects === null && saved.length > 0)
    throw new NoBackup(`The backup has ${saved.length} objects, but SVC_OBJECT_STORE stores none.`);
}

async function restoreObjects(directory: string, { objects: saved }: Contents, objects: ObjectStore): Promise<void> {
  for (const { path, sha256 } of saved) {
    const key = path.slice(objectsFolder.length + 1);
    await objects.put(key, await readFile(join(directory, path)));
    const bytes = await objects.get(key);
    if (bytes === null || createHash("sha256").update(bytes).digest("hex") !== sha256)
      throw new NoBackup(`${key} differs from the saved object: its digest differs.`);
  }
  let found = 0;
  for (let after = ""; ; ) {
    const keys = await objects.list("", keysAtOnce, after);
    found += keys.length;
    const last = keys.at(-1);
    if (last === undefined) break;
    after = last;
  }
  if (found !== saved.length)
    throw new NoBackup(`The object store has ${found} objects, but the backup has ${saved.length}.`);
}
