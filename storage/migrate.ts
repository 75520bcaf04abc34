import { existsSync } from "node:fs";
import { migrations } from "./migrations/list.ts";
import { markerOf } from "./sqlite/restore-marker.ts";
import type { StoreConfig } from "./store/config.ts";
import { isReserved, type Migration, type SchemaChange, type SchemaSession } from "./store/migration.ts";

/** Name of the empty schema, before the first revision. */
const baseRevision = "base";

/** The target does not exist, or needs a confirmation that is missing. Nothing has changed. */
export class MigrationRefused extends Error {
  override readonly name = "MigrationRefused";
}

/** Target of a migration. */
export interface MigrateOptions {
  /** "head", a revision, or "base" for the empty schema. */
  readonly target: string;
  /** True to allow a target below the current revision. */
  readonly downgrade: boolean;
  /** True if a restore calls: only the restore may change an incomplete database. */
  readonly isRestore?: boolean;
  /**
   * Awaited before each step, and repeatedly while waiting for a lock. If it rejects, so does `migrate`; completed
   * steps stay.
   */
  readonly pause?: () => Promise<void>;
}

/** The revisions before and after a migration, and its steps. */
export interface MigrateResult {
  readonly from: string;
  readonly to: string;
  /** Revisions that were applied or undone, in that order. */
  readonly applied: string[];
}

/**
 * Migrates the schema to a revision, with one transaction per step. A new database gets all steps in one transaction,
 * to flush the disk once. Several processes may call this at once: each step runs once. `known` lists all migrations of
 * the deployment in order. Revisions of plugins that are not loaded stay untouched. Refuses with `MigrationRefused`.
 */
export async function migrate(
  config: StoreConfig,
  { target, downgrade, isRestore = false, pause }: MigrateOptions,
  known: readonly Migration[] = migrations,
): Promise<MigrateResult> {
  const goal = target === "head" ? (known.at(-1)?.revision ?? baseRevision) : target;
  if (goal !== baseRevision && !known.some(({ revision }) => revision === goal))
    throw new MigrationRefused(`there is no revision ${target}`);
  if (downgrade && target === "head") throw new MigrationRefused("a downgrade needs the revision to return to");

  if (!isRestore) await refuseNotWhole(config);
  const session = await openSchema(config, pause);
  try {
    const before = withoutAbsent(await session.revisions(), known);
    refuseUnknown(before, known);
    const from = highest(before);
    if (downgrade && !isBelow(goal, from))
      throw new MigrationRefused(`${target} is not older than ${from}, the revision of the database`);
    if (!downgrade && isBelow(goal, from))
      throw new MigrationRefused(`the database is at ${from}, newer than ${target}; add --downgrade to migrate down`);

    const applied: string[] = [];
    let more = true;
    while (more) {
      await pause?.();
      more = await session.change((all) => {
        const revisions = withoutAbsent(all, known);
        refuseUnknown(revisions, known);
        const pending = downgrade ? stepsDown(revisions, goal, known) : stepsUp(revisions, goal, known);
        const changes = all.length === 0 ? pending : pending.slice(0, 1);
        applied.push(...changes.map(({ revision }) => revision));
        return changes;
      });
    }
    return { from, to: highest(withoutAbsent(await session.revisions(), known)), applied };
  } finally {
    await session.close();
  }
}

/**
 * Refuses with `MigrationRefused` a database that this version cannot serve: a restore into it was interrupted, or a version
 * before 0.2.0 created it. The latter is checked for Postgres only, because on SQLite `migrate` follows and refuses it.
 */
export async function refuseUnusable(config: StoreConfig): Promise<void> {
  await refuseNotWhole(config);
  if (config.engine === "postgres") await appliedRevisions(config);
}

async function refuseNotWhole(config: StoreConfig): Promise<void> {
  if (config.engine === "sqlite") {
    // Checks for the marker file only: opening the database would create one.
    if (existsSync(markerOf(config.path))) throw new MigrationRefused(notWhole);
    return;
  }
  const { schemaIsBeingRestored } = await import("./postgres/schema.ts");
  if (await schemaIsBeingRestored(config.postgres)) throw new MigrationRefused(notWhole);
}

const notWhole =
  "an interrupted restore or move left the database incomplete: run svc restore with the same backup again, or svc move with the same source";

/** Returns the highest revision of the database; "base" if it has none. Refuses a database of a version before 0.2.0. */
export async function currentRevision(config: StoreConfig): Promise<string> {
  return highest(await appliedRevisions(config));
}

/**
 * True if the database lacks a needed revision. Opens its own connection; `storage/tables/schema-revisions.ts` checks
 * through the store.
 */
export async function schemaBehind(config: StoreConfig, needed: readonly Migration[] = migrations): Promise<boolean> {
  const applied = await appliedRevisions(config);
  return needed.some(({ revision }) => !applied.includes(revision));
}

async function appliedRevisions(config: StoreConfig): Promise<string[]> {
  const session = await openSchema(config);
  try {
    const revisions = await session.revisions();
    refuseOlder(revisions);
    return revisions;
  } finally {
    await session.close();
  }
}

/** Loads only the driver of the configured engine. */
async function openSchema(config: StoreConfig, pause?: () => Promise<void>): Promise<SchemaSession> {
  if (config.engine === "sqlite") return (await import("./sqlite/schema.ts")).openSqliteSchema(config.path, pause);
  return (await import("./postgres/schema.ts")).openPostgresSchema(config.postgres);
}

/**
 * Returns the missing revisions up to `goal`, lowest first. They include lower ones that were skipped when another
 * layer added its own.
 */
function stepsUp(revisions: readonly string[], goal: string, known: readonly Migration[]): SchemaChange[] {
  return known
    .filter(({ revision }) => !isBelow(goal, revision) && !revisions.includes(revision))
    .map(({ revision, name, up }) => ({ revision, name, direction: "up", steps: up }));
}

/** Returns the applied revisions above `goal`, highest first. */
function stepsDown(revisions: readonly string[], goal: string, known: readonly Migration[]): SchemaChange[] {
  return known
    .filter(({ revision }) => isBelow(goal, revision) && revisions.includes(revision))
    .map(({ revision, name, down }): SchemaChange => ({ revision, name, direction: "down", steps: down }))
    .reverse();
}

/** True for the revisions of plugins, which begin with the plugin's name or are reserved for one. */
function isOfPlugin(revision: string): boolean {
  return /^[a-z]/.test(revision) || isReserved(revision);
}

/** Returns the revisions without those of plugins that are not loaded, whose tables stay untouched. */
function withoutAbsent(revisions: readonly string[], known: readonly Migration[]): string[] {
  return revisions.filter((revision) => !isOfPlugin(revision) || known.some((one) => one.revision === revision));
}

/** Matches revisions 0001 to 0099 that are not reserved for commerce. Versions before the baseline created them. */
const beforeBaseline = /^00(?!00|0[6-9]|1[0-8])\d\d$/;

/** Returns a revision in the list that a version before 0.2.0 created; undefined if there is none. */
export function olderRevision(revisions: readonly string[]): string | undefined {
  return revisions.findLast((revision) => beforeBaseline.test(revision));
}

function refuseOlder(revisions: readonly string[]): void {
  const older = olderRevision(revisions);
  if (older !== undefined)
    throw new MigrationRefused(
      `the database has revision ${older} of a version before 0.2.0, which this version cannot migrate; read it with the version that made it, or name a new database by SVC_DATABASE_URL or SVC_DATA_DIR`,
    );
}

function refuseUnknown(revisions: readonly string[], known: readonly Migration[]): void {
  refuseOlder(revisions);
  const strange = revisions.find((revision) => !known.some((migration) => migration.revision === revision));
  if (strange) throw new MigrationRefused(`the database has revision ${strange}, which this version does not know`);
}

function highest(revisions: readonly string[]): string {
  return revisions.toSorted().at(-1) ?? baseRevision;
}

function isBelow(a: string, b: string): boolean {
  return a !== b && (a === baseRevision || (b !== baseRevision && a < b));
}
