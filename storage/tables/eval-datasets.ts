import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, json, nullable, type RowIn, selectOne, table, text } from "../store/table.ts";
import type { JobOwner } from "./jobs.ts";
import { writeStored } from "./stored-bytes.ts";

// Datasets of evaluations and their items. A dataset is written whole, or items are appended. Each change raises its
// revision, which the next change checks. The position of an item is its number in the dataset, from 0.

/** When a dataset is evaluated without a request. */
export interface Continuous {
  readonly manifest: string;
  readonly every_minutes: number;
  /** A pass rate below it is a regression; null for none. */
  readonly min_score: number | null;
  /** Endpoints that learn of a regression. */
  readonly webhooks: readonly string[];
}

const datasetTable = table(
  "eval_datasets",
  {
    name: text,
    description: text,
    created_at: integer,
    updated_at: integer,
    revision: integer,
    item_count: integer,
    /** Bytes that the dataset counts against the quota. */
    bytes: integer,
    /** 1 if tools of an evaluated agent may spend and speak. */
    allow_effects: integer,
    continuous: nullable(json<Continuous>()),
    /** The last author; runs of the continuous evaluation have these scopes. */
    owner: json<JobOwner>(),
    /** Next time of the continuous evaluation by the store's clock; null without one. */
    due_at: nullable(integer),
  },
  ({ text }) => ({
    ...{ name: "row", description: text, created_at: 5, updated_at: 5, revision: 1, item_count: 1, bytes: 5 },
    ...{ allow_effects: 0, due_at: 5 },
    continuous: { manifest: text, every_minutes: 10, min_score: null, webhooks: [] },
    owner: { sub: text, scopes: [], scheme: "api_key", issuer: "" },
  }),
);

/** A stored dataset without its items. */
export type DatasetRow = RowIn<typeof datasetTable>;

const itemTable = table("eval_items", {
  dataset: text,
  position: integer,
  item_id: text,
  created_at: integer,
  user_input: text,
  /** JSON of an object. */
  rubric: text,
});

/** A stored item. */
export type EvalItemRow = RowIn<typeof itemTable>;

/** An item that is written. */
export type WrittenItem = Pick<EvalItemRow, "item_id" | "user_input" | "rubric">;

/** The fields of a dataset that its author sets. */
export type WrittenDataset = Pick<DatasetRow, "name" | "description" | "allow_effects" | "continuous" | "owner">;

/** A due dataset. */
export interface DueDataset {
  readonly tenant_id: string;
  readonly name: string;
}

/** Bytes that a dataset, and each item, counts in addition to its text. */
const rowBytes = 256;

const insertDataset = insertInto(datasetTable);
const updateDataset = tenantSql(
  "eval_dataset_update",
  `UPDATE eval_datasets SET description = ?, allow_effects = ?, continuous = ?, owner = ?, due_at = ?, updated_at = ?,
     item_count = ?, bytes = ?, revision = revision + 1 WHERE tenant_id = :tenant AND name = ? AND revision = ?`,
);
const growDataset = tenantSql(
  "eval_dataset_grow",
  `UPDATE eval_datasets SET updated_at = ?, item_count = item_count + ?, bytes = bytes + ?, revision = revision + 1
   WHERE tenant_id = :tenant AND name = ? AND revision = ?`,
);
const deleteDataset = tenantSql(
  "eval_dataset_delete",
  "DELETE FROM eval_datasets WHERE tenant_id = :tenant AND name = ? AND revision = ?",
);
const deleteItems = tenantSql("eval_items_delete", "DELETE FROM eval_items WHERE tenant_id = :tenant AND dataset = ?");
const insertItems = tenantSql("eval_items_add", {
  sqlite: `INSERT INTO eval_items (tenant_id, dataset, position, item_id, created_at, user_input, rubric)
    SELECT :tenant, ?, ? + key, value ->> '$.item_id', ?, value ->> '$.user_input', value ->> '$.rubric' FROM json_each(?)`,
  postgres: `INSERT INTO eval_items (tenant_id, dataset, position, item_id, created_at, user_input, rubric)
    SELECT :tenant, ?, CAST(? AS BIGINT) + place - 1, value ->> 'item_id', CAST(? AS BIGINT), value ->> 'user_input', value ->> 'rubric'
    FROM jsonb_array_elements(CAST(? AS jsonb)) WITH ORDINALITY AS item (value, place)`,
});
const selectDatasets = tenantSql(
  "eval_datasets_page",
  `SELECT ${datasetTable.columns} FROM eval_datasets WHERE tenant_id = :tenant AND name > ? ORDER BY name LIMIT ?`,
);
const selectNth = tenantSql(
  "eval_datasets_nth",
  "SELECT 1 AS is_there FROM eval_datasets WHERE tenant_id = :tenant ORDER BY name LIMIT 1 OFFSET ?",
);
const selectItems = tenantSql(
  "eval_items_page",
  `SELECT ${itemTable.columns} FROM eval_items WHERE tenant_id = :tenant AND dataset = ? AND position > ? ORDER BY position LIMIT ?`,
);
const selectTaken = tenantSql("eval_items_taken", {
  sqlite: `SELECT item_id FROM eval_items WHERE tenant_id = :tenant AND dataset = ? AND item_id IN
    (SELECT value FROM json_each(?)) LIMIT 1`,
  postgres: `SELECT item_id FROM eval_items WHERE tenant_id = :tenant AND dataset = ? AND item_id IN
    (SELECT value FROM jsonb_array_elements_text(CAST(? AS jsonb)) AS each (value)) LIMIT 1`,
});
const selectDue = systemSql(
  "eval_datasets_due",
  `SELECT tenant_id, name FROM eval_datasets WHERE due_at IS NOT NULL AND due_at <= :now AND (tenant_id, name) > (?, ?)
   ORDER BY tenant_id, name LIMIT ?`,
);
const skipDue = systemSql(
  "eval_datasets_skip_due",
  "UPDATE eval_datasets SET due_at = :now + 600000 WHERE due_at IS NOT NULL AND due_at <= :now",
);
const takeDue = tenantSql(
  "eval_dataset_take_due",
  `UPDATE eval_datasets SET due_at = :now + ? WHERE tenant_id = :tenant AND name = ? AND due_at = ? AND due_at <= :now`,
);

/** Returns a dataset of a tenant. */
export const storedDataset = selectOne(datasetTable, ["name"]);

/** Returns the tenant's datasets by name, in pages. */
export async function datasetsPage(store: TenantStore, after: string, limit: number): Promise<DatasetRow[]> {
  return (await store.read(selectDatasets, after, limit)).map(datasetTable.decode);
}

/** True if the tenant has at least `count` datasets. */
export async function hasDatasets(store: TenantStore, count: number): Promise<boolean> {
  return (await store.read(selectNth, count - 1)).length > 0;
}

/** Returns the items of a dataset after a position, in pages. */
export async function itemsPage(
  store: TenantStore,
  dataset: string,
  after: number,
  limit: number,
): Promise<EvalItemRow[]> {
  return (await store.read(selectItems, dataset, after, limit)).map(itemTable.decode);
}

/** Returns one of the ids that the dataset has already; null if it has none of them. */
export async function takenItemId(store: TenantStore, dataset: string, ids: readonly string[]): Promise<string | null> {
  const [row] = await store.read(selectTaken, dataset, JSON.stringify(ids));
  return (row?.item_id as string | undefined) ?? null;
}

/** Returns the bytes that items count. */
function itemsBytes(items: readonly WrittenItem[]): number {
  return items.reduce(
    (sum, { item_id, user_input, rubric }) => sum + rowBytes + Buffer.byteLength(item_id + user_input + rubric),
    0,
  );
}

/**
 * Replaces the dataset `before`, or inserts a new one, with all its items and with `ops` in the same batch. Refuses with
 * storage_quota_exceeded, and with conflict if the dataset has changed since it was read.
 */
export async function writeDataset(
  store: TenantStore,
  before: DatasetRow | undefined,
  written: WrittenDataset,
  items: readonly WrittenItem[],
  { now, due_at, limit, ops }: { now: number; due_at: number | null; limit: number; ops: readonly WriteOp[] },
): Promise<void> {
  const { name, description, allow_effects, continuous, owner } = written;
  const own = Buffer.byteLength(description + JSON.stringify(continuous) + JSON.stringify(owner)) + rowBytes;
  const bytes = own + itemsBytes(items);
  const item_count = items.length;
  const changed = [description, allow_effects, continuous === null ? null : JSON.stringify(continuous)];
  const op =
    before === undefined
      ? insertDataset(store, { ...written, created_at: now, updated_at: now, revision: 1, item_count, bytes, due_at })
      : store.op(
          updateDataset,
          [...changed, JSON.stringify(owner), due_at, now, item_count, bytes, name, before.revision],
          1,
        );
  await writeStored(store, { kind: "eval_datasets", bytes: bytes - (before?.bytes ?? 0) }, limit, [
    op,
    store.op(deleteItems, [name]),
    ...itemsOps(store, name, 0, now, items),
    ...ops,
  ]);
}

/** Appends items to a dataset as it was read. Refuses as `writeDataset` does, and with conflict if an id exists. */
export async function appendItems(
  store: TenantStore,
  { name, revision, item_count }: DatasetRow,
  items: readonly WrittenItem[],
  { now, limit, ops }: { now: number; limit: number; ops: readonly WriteOp[] },
): Promise<void> {
  const bytes = itemsBytes(items);
  await writeStored(store, { kind: "eval_datasets", bytes }, limit, [
    store.op(growDataset, [now, items.length, bytes, name, revision], 1),
    ...itemsOps(store, name, item_count, now, items),
    ...ops,
  ]);
}

/** Deletes a dataset as it was read, with its items. Its runs stay. Refuses with conflict if it has changed. */
export async function removeDataset(
  store: TenantStore,
  { name, revision, bytes }: DatasetRow,
  ops: readonly WriteOp[],
): Promise<void> {
  await writeStored(store, { kind: "eval_datasets", bytes: -bytes }, 0, [
    store.op(deleteDataset, [name, revision], 1),
    store.op(deleteItems, [name]),
    ...ops,
  ]);
}

/** Returns datasets whose continuous evaluation is due, in pages. */
export async function dueDatasets(store: Scope, after: DueDataset, limit: number): Promise<DueDataset[]> {
  return (await store.read(selectDue, after.tenant_id, after.name, limit)) as unknown as DueDataset[];
}

/** Moves missed due times of a restored backup ahead by ten minutes, the shortest interval. */
export function skipDueOp(store: Scope): WriteOp {
  return store.op(skipDue, []);
}

/** Moves the due time of a dataset to `everyMs` from now. Refuses with conflict if another process has done so. */
export function takeDueOp(store: TenantStore, { name, due_at }: DatasetRow, everyMs: number): WriteOp {
  return store.op(takeDue, [everyMs, name, due_at], 1);
}

function itemsOps(
  store: TenantStore,
  dataset: string,
  first: number,
  now: number,
  items: readonly WrittenItem[],
): WriteOp[] {
  return items.length === 0 ? [] : [store.op(insertItems, [dataset, first, now, JSON.stringify(items)], items.length)];
}
