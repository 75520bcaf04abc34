import { createHash } from "node:crypto";
import { NoBackup } from "./backup/contents.ts";
import { migrate } from "./migrate.ts";
import {
  type LastKey,
  type MovedRow,
  type MoveSource,
  type MoveTarget,
  RowSum,
  type SourceTable,
} from "./move/parts.ts";
import type { ObjectStore } from "./objects/object-store.ts";
import type { PostgresConfig } from "./store/config.ts";
import type { Migration } from "./store/migration.ts";
import { indexText } from "./tables/corpus-words.ts";

/** A move from SQLite to Postgres. */
export interface MoveOf {
  /** The file of the database, whose server is stopped. */
  readonly from: string;
  readonly to: PostgresConfig;
  /** The objects to copy, and where to; null to leave them where they are. */
  readonly objects: { readonly from: ObjectStore; readonly to: ObjectStore } | null;
  /** The migrations of the deployment. */
  readonly known: readonly Migration[];
}

/** Result of a move. */
export interface Moved {
  readonly tables: number;
  readonly rows: number;
  readonly objects: number;
  /** Tables of the source that svc does not create. */
  readonly leftOut: readonly string[];
  /** True if an earlier move was continued. */
  readonly isContinued: boolean;
}

/** The target cannot be filled. Nothing has changed. */
export class MoveRefused extends Error {
  override readonly name = "MoveRefused";
}

const rowsAtOnce = 500;
/** Characters after which rows are sent. */
const charactersAtOnce = 4 * 1024 * 1024;
const objectsAtOnce = 8;
const keysAtOnce = 200;
/** Name of the progress of objects; no table has it. */
const objectsName = "+objects";
/** Rows of the first two belong to the processes of the source. Vectors are computed again by `svc embeddings rebuild`. */
const notMoved = ["schema_revisions", "hosts", "vectors", "vector_bits", "vector_queue"];

/**
 * Copies a stopped install, row by row and object by object, and compares counts and digests at the end. An interrupted move is
 * continued by the same call; until it ends, no server starts on the target. The source is not changed.
 */
export async function moveInstall({ from, to, objects, known }: MoveOf): Promise<Moved> {
  const { openRowsOut } = await import("./sqlite/rows-out.ts");
  const { openRowsIn } = await import("./postgres/rows-in.ts");
  const source = openRowsOut(from);
  try {
    const revisions = source.revisions();
    if (revisions.length === 0) throw new MoveRefused(`${from} has no schema: there is nothing to move`);
    const strange = revisions.find((revision) => !known.some((one) => one.revision === revision));
    if (strange !== undefined)
      throw new MoveRefused(`${from} has revision ${strange}, which neither this version nor a loaded plugin knows`);
    const target = await openRowsIn(to);
    try {
      const id = `move ${createHash("sha256").update(from).digest("hex").slice(0, 32)}`;
      const state = await target.state(id);
      if (typeof state === "object") throw new MoveRefused(state.reason);
      if (state === "empty") {
        const mine = known.filter(({ revision }) => revisions.includes(revision));
        const { to: reached } = await migrate(
          { engine: "postgres", postgres: to },
          { target: "head", downgrade: false, isRestore: true },
          mine,
        );
        if (reached !== revisions.at(-1))
          throw new MoveRefused(
            `the target is at revision ${reached}, and the source at ${revisions.at(-1)}; migrate it first`,
          );
        await target.begin(
          id,
          source.tables().map(({ name }) => name),
        );
      }
      const { moved, leftOut } = await moveTables(source, target);
      const copied = objects === null ? 0 : await moveObjects(objects.from, objects.to, target);
      await target.finish(indexText);
      const rows = moved.reduce((sum, { rows: of }) => sum + of, 0);
      return { tables: moved.length, rows, objects: copied, leftOut, isContinued: state === "ours" };
    } finally {
      await target.close();
    }
  } finally {
    source.close();
  }
}

async function moveTables(source: MoveSource, target: MoveTarget) {
  const there = await target.tables();
  const tables = source.tables().filter(({ name }) => !notMoved.includes(name));
  const known = tables.filter(({ name }) => there.has(name));
  for (const table of known) {
    const missing = table.columns.find((column) => !there.get(table.name)?.includes(column));
    if (missing !== undefined) throw new NoBackup(`the target has no column ${table.name}.${missing}`);
    await moveTable(source, target, table);
  }
  const moved: { rows: number }[] = [];
  for (const table of known) {
    const sum = new RowSum();
    for (const row of source.rows(table, null)) sum.add(row);
    const [wanted, found] = [sum.total, await target.digest(table)];
    if (found.rows !== wanted.rows)
      throw new NoBackup(
        `${table.name} has ${found.rows} rows in the target, and ${wanted.rows} in the source: ${again}`,
      );
    if (found.digest !== wanted.digest) throw new NoBackup(`${table.name} differs between source and target: ${again}`);
    moved.push(wanted);
  }
  return { moved, leftOut: tables.filter(({ name }) => !there.has(name)).map(({ name }) => name) };
}

const again = "the source has changed since the move began; empty the target schema and move again";

async function moveTable(source: MoveSource, target: MoveTarget, table: SourceTable): Promise<void> {
  const places = table.key.map((column) => table.columns.indexOf(column));
  let rows: MovedRow[] = [];
  let characters = 0;
  const send = async (): Promise<void> => {
    const last = rows.at(-1);
    if (last === undefined) return;
    const key = places.map((at) => last[at]) as unknown as LastKey;
    try {
      await target.insert(table, rows, key);
    } catch (error) {
      throw new Error(
        `${table.name}, rows up to ${key.map(String).join(", ").slice(0, 200)}: ${(error as Error).message}`,
        {
          cause: error,
        },
      );
    }
    rows = [];
    characters = 0;
  };
  for (const row of source.rows(table, await target.progress(table.name))) {
    rows.push(row);
    for (const value of row) characters += typeof value === "string" ? value.length : 8;
    if (rows.length === rowsAtOnce || characters >= charactersAtOnce) await send();
  }
  await send();
}

/** Copies every object, and reads each again. Returns their number. */
async function moveObjects(from: ObjectStore, to: ObjectStore, target: MoveTarget): Promise<number> {
  let [after = "", count = 0] = ((await target.progress(objectsName)) ?? []) as [string?, number?];
  for (;;) {
    const keys = await from.list("", keysAtOnce, after);
    const left = keys.values();
    await Promise.all(
      Array.from({ length: objectsAtOnce }, async () => {
        for (const key of left) await moveObject(key, from, to);
      }),
    );
    const last = keys.at(-1);
    if (last === undefined) return count;
    after = last;
    count += keys.length;
    await target.keepProgress(objectsName, [after, count]);
  }
}

async function moveObject(key: string, from: ObjectStore, to: ObjectStore): Promise<void> {
  const bytes = await from.get(key);
  if (bytes === null) throw new NoBackup(`${key} disappeared from the source`);
  await to.put(key, bytes);
  const copied = await to.get(key);
  if (copied === null || Buffer.compare(copied, bytes) !== 0) throw new NoBackup(`${key} differs in the target`);
}
