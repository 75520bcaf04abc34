import { existsSync } from "node:fs";
import { migrations } from "./migrations/list.ts";
import { markerOf } from "./sqlite/restore-marker.ts";
import type { StoreConfig } from "./store/config.ts";
import type { Migration, SchemaChange, SchemaSession } from "./store/migration.ts";

/** The name of the empty schema, before the first revision. */
const baseRevision = "base";

/** Asked for what is not done without being asked twice, or for what does not exist. Nothing has changed. */
export class MigrationRefused extends Error {
  override readonly name = "MigrationRefused";
}

/** Where the schema is to go. */
export interface MigrateOptions {
  /** "head", a revision, or "base" for the empty schema. */
  readonly target: string;
  /** Whether the target is a revision to go back to. */
  readonly downgrade: boolean;
  /** Whether it is the restore itself that asks: nobody else changes a database that is not whole. */
  readonly isRestore?: boolean;
  /** Awaited before each step, and again and again while a lock is waited for. Where it rejects so does `migrate`; steps already made stay made. */
  readonly pause?: () => Promise<void>;
}

/** Where the schema was, where it is, and what was done. */
export interface MigrateResult {
  readonly from: string;
  readonly to: string;
  /** Revisions that were applied, or undone, in that order. */
  readonly applied: string[];
}

/**
 * Brings the schema to a revision, each step in its own transaction; a new database gets all of its steps in one, which flushes the
 * disk once. Safe when several processes do it at once: each step is taken by one of them. `known` are all migrations of the
 * deployment, in the order of their revisions; what plugins have made that are not loaded is left as it is. Refuses with
 * `MigrationRefused`.
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

/** Refuses, with `MigrationRefused`, a database into which a backup was being put when that was cut. */
export async function refuseNotWhole(config: StoreConfig): Promise<void> {
  if (config.engine === "sqlite") {
    // Looked at from outside: opening would make a database where there is none yet.
    if (existsSync(markerOf(config.path))) throw new MigrationRefused(notWhole);
    return;
  }
  const { schemaIsBeingRestored } = await import("./postgres/schema.ts");
  if (await schemaIsBeingRestored(config.postgres)) throw new MigrationRefused(notWhole);
}

const notWhole = "an interrupted restore left the database incomplete: run svc restore with the same backup again";

/** The highest revision that the database has, "base" when it has none. */
export async function currentRevision(config: StoreConfig): Promise<string> {
  return highest(await appliedRevisions(config));
}

/** Whether the database lacks a revision that is needed. Opens its own connection; `storage/tables/schema-revisions.ts` asks through the store. */
export async function schemaBehind(config: StoreConfig, needed: readonly Migration[] = migrations): Promise<boolean> {
  const applied = await appliedRevisions(config);
  return needed.some(({ revision }) => !applied.includes(revision));
}

async function appliedRevisions(config: StoreConfig): Promise<string[]> {
  const session = await openSchema(config);
  try {
    return await session.revisions();
  } finally {
    await session.close();
  }
}

/** Only the driver of the engine that is configured is loaded. */
async function openSchema(config: StoreConfig, pause?: () => Promise<void>): Promise<SchemaSession> {
  if (config.engine === "sqlite") return (await import("./sqlite/schema.ts")).openSqliteSchema(config.path, pause);
  return (await import("./postgres/schema.ts")).openPostgresSchema(config.postgres);
}

/** The revisions up to `goal` that are missing, the lowest first: also one that was skipped before, when another layer had none. */
function stepsUp(revisions: readonly string[], goal: string, known: readonly Migration[]): SchemaChange[] {
  return known
    .filter(({ revision }) => !isBelow(goal, revision) && !revisions.includes(revision))
    .map(({ revision, name, up }) => ({ revision, name, direction: "up", steps: up }));
}

/** The revisions beyond `goal` that are there, the highest first. */
function stepsDown(revisions: readonly string[], goal: string, known: readonly Migration[]): SchemaChange[] {
  return known
    .filter(({ revision }) => isBelow(goal, revision) && revisions.includes(revision))
    .map(({ revision, name, down }): SchemaChange => ({ revision, name, direction: "down", steps: down }))
    .reverse();
}

/** Revisions of plugins begin with their names. */
const ofPlugin = /^[a-z]/;

/** The revisions without those of plugins that are not loaded: their tables are nobody's business now. */
function withoutAbsent(revisions: readonly string[], known: readonly Migration[]): string[] {
  return revisions.filter((revision) => !ofPlugin.test(revision) || known.some((one) => one.revision === revision));
}

function refuseUnknown(revisions: readonly string[], known: readonly Migration[]): void {
  const strange = revisions.find((revision) => !known.some((migration) => migration.revision === revision));
  if (strange) throw new MigrationRefused(`the database has revision ${strange}, which this version does not know`);
}

function highest(revisions: readonly string[]): string {
  return revisions.toSorted().at(-1) ?? baseRevision;
}

function isBelow(a: string, b: string): boolean {
  return a !== b && (a === baseRevision || (b !== baseRevision && a < b));
}
