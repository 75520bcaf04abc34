import { systemSql, tenantSql } from "../../../storage/store/statements.ts";
import type { Store, TenantStore, WriteOp } from "../../../storage/store/store.ts";
import {
  insertInto,
  integer,
  json,
  nullable,
  oneOf,
  type RowIn,
  selectOne,
  table,
  text,
  upsertInto,
} from "../../../storage/store/table.ts";

// Where a tenant keeps entities of a type: as rows of svc (native), in another system that each read asks (federated), or as copies
// that svc pulls or another system pushes (synced).

/** The types of entities. */
export const entityTypes = ["account", "buyer", "quote", "invoice", "competitor_price", "order", "product"] as const;
/** A type of entities. */
export type EntityType = (typeof entityTypes)[number];

/** The places of entities. */
export const sourceModes = ["native", "federated", "synced"] as const;
/** A place of entities. */
export type SourceMode = (typeof sourceModes)[number];

/** How to reach the system with the entities of a tenant. */
export interface ConnectorConfig {
  readonly kind: "http" | "mcp";
  readonly url: string;
  /** `secret:NAME` of a bearer token; absent for none. */
  readonly auth?: string;
  readonly options?: {
    /** Names of fields there, by their names here. */
    readonly mapping?: Readonly<Record<string, string>>;
  };
  /** Seconds for which a read may be repeated from memory. */
  readonly cache_ttl_seconds?: number;
}

/** The sources. */
export const sourceTable = table(
  "commerce_entity_sources",
  { type: oneOf(...entityTypes), mode: oneOf(...sourceModes), connector: nullable(text), updated_at: integer },
  () => ({ type: "account" as const, mode: "federated" as const, connector: "{}", updated_at: 5 }),
);

/** The copies. */
export const entityTable = table(
  "commerce_entities",
  {
    type: oneOf(...entityTypes),
    id: text,
    body: json<Readonly<Record<string, unknown>>>(),
    /** 1 for a deleted entity, which stays so that an older update does not bring it back. */
    deleted: integer,
    updated_at: integer,
  },
  ({ text: value }) => ({ type: "account" as const, id: "row", body: { value }, deleted: 0, updated_at: 5 }),
);

/** The jobs. */
export const jobTable = table(
  "commerce_entity_jobs",
  {
    id: text,
    type: oneOf(...entityTypes),
    ts: integer,
    status: oneOf("running", "done", "failed"),
    /** The page that follows; null for the first one. */
    cursor: nullable(text),
    pages: integer,
    applied: integer,
    skipped: integer,
    failed: integer,
    /** Why it failed; empty otherwise. */
    problem: text,
    /** Raised by each process that takes over. */
    claim: integer,
    /** Time after which another process takes over. */
    due_at: integer,
  },
  ({ text: problem }) => ({
    ...{ id: "row", type: "account" as const, ts: 5, status: "running" as const, cursor: problem, pages: 5 },
    ...{ applied: 5, skipped: 5, failed: 5, problem, claim: 5, due_at: 5 },
  }),
);

/** A stored source. */
export type SourceRow = RowIn<typeof sourceTable>;
/** A stored copy. */
export type EntityRow = RowIn<typeof entityTable>;
/** A stored job. */
export type JobRow = RowIn<typeof jobTable>;

const upsertEntity = tenantSql(
  "commerce_entity_put",
  `INSERT INTO commerce_entities (tenant_id, type, id, body, deleted, updated_at) VALUES (:tenant, ?, ?, ?, ?, ?)
   ON CONFLICT (tenant_id, type, id) DO UPDATE SET body = excluded.body, deleted = excluded.deleted,
     updated_at = excluded.updated_at
     WHERE excluded.updated_at >= commerce_entities.updated_at
   RETURNING id`,
);
const selectEntities = tenantSql(
  "commerce_entities_after",
  `SELECT ${entityTable.columns} FROM commerce_entities
   WHERE tenant_id = :tenant AND type = ? AND deleted = 0 AND id > ? ORDER BY id LIMIT ?`,
);
const advanceJob = tenantSql(
  "commerce_entity_job_advance",
  `UPDATE commerce_entity_jobs SET cursor = ?, pages = pages + 1, applied = applied + ?, skipped = skipped + ?,
     failed = failed + ?, status = ?, due_at = ?
   WHERE tenant_id = :tenant AND id = ? AND status = 'running' AND claim = ?`,
);
const failJob = tenantSql(
  "commerce_entity_job_fail",
  `UPDATE commerce_entity_jobs SET status = 'failed', problem = ?
   WHERE tenant_id = :tenant AND id = ? AND status = 'running' AND claim = ?`,
);
const claimJob = tenantSql(
  "commerce_entity_job_claim",
  `UPDATE commerce_entity_jobs SET claim = claim + 1, due_at = ?
   WHERE tenant_id = :tenant AND id = ? AND status = 'running' AND claim = ?`,
);
const selectLive = tenantSql(
  "commerce_entity_job_live",
  `SELECT ${jobTable.columns} FROM commerce_entity_jobs WHERE tenant_id = :tenant AND type = ? AND status = 'running'`,
);
const selectDue = systemSql(
  "commerce_entity_jobs_due",
  `SELECT tenant_id, ${jobTable.columns} FROM commerce_entity_jobs WHERE status = 'running' AND due_at <= ?
   ORDER BY due_at LIMIT ?`,
);
const deleteOldJobs = systemSql(
  "commerce_entity_jobs_delete",
  "DELETE FROM commerce_entity_jobs WHERE ts < ? AND status <> 'running'",
);

/** Returns the source of a type of entities; undefined for native. */
export const sourceOf = selectOne(sourceTable, ["type"]);
/** Returns the operation that stores a source. */
export const putSourceOp: (store: TenantStore, row: SourceRow) => WriteOp = upsertInto(sourceTable, ["type"]);
/** Returns a copy, also a deleted one. */
export const entityById = selectOne(entityTable, ["type", "id"]);
/** Returns a job. */
export const jobById = selectOne(jobTable, ["id"]);
/** Returns the operation that stores a new job. Its batch refuses with conflict while another one of the type is running. */
export const insertJobOp: (store: TenantStore, row: JobRow) => WriteOp = insertInto(jobTable);

/** Returns the operation that stores a copy, unless there is a newer one. It returns a row if it does. */
export function putEntityOp(store: TenantStore, { type, id, body, deleted, updated_at }: EntityRow): WriteOp {
  return store.op(upsertEntity, [type, id, JSON.stringify(body), deleted, updated_at]);
}

/** Returns copies of a type after an id. */
export async function entitiesAfter(
  store: TenantStore,
  type: EntityType,
  after: string,
  limit: number,
): Promise<EntityRow[]> {
  return (await store.read(selectEntities, type, after, limit)).map(entityTable.decode);
}

/** Returns the job of a type that is running. */
export async function liveJob(store: TenantStore, type: EntityType): Promise<JobRow | undefined> {
  const [row] = await store.read(selectLive, type);
  return row && jobTable.decode(row);
}

/** Returns the operation that records a page of a job. Its batch refuses with conflict if another process has the job. */
export function advanceJobOp(
  store: TenantStore,
  { id, claim }: Pick<JobRow, "id" | "claim">,
  page: Pick<JobRow, "cursor" | "applied" | "skipped" | "failed" | "status" | "due_at">,
): WriteOp {
  const { cursor, applied, skipped, failed, status, due_at } = page;
  return store.op(advanceJob, [cursor, applied, skipped, failed, status, due_at, id, claim], 1);
}

/** Returns the operation that ends a job as failed, if this process has it. */
export function failJobOp(store: TenantStore, { id, claim }: Pick<JobRow, "id" | "claim">, problem: string): WriteOp {
  return store.op(failJob, [problem, id, claim]);
}

/** Returns the operation that takes a job over. Its batch refuses with conflict if another process was first. */
export function claimJobOp(store: TenantStore, { id, claim }: Pick<JobRow, "id" | "claim">, dueAt: number): WriteOp {
  return store.op(claimJob, [dueAt, id, claim], 1);
}

/** Returns jobs that their process has left. */
export async function dueJobs(
  store: Store,
  now: number,
  limit: number,
): Promise<{ readonly tenant_id: string; readonly job: JobRow }[]> {
  const rows = await store.system.read(selectDue, now, limit);
  return rows.map((row) => ({ tenant_id: row.tenant_id as string, job: jobTable.decode(row) }));
}

/** Deletes jobs that ended and are older than `before`. */
export async function deleteEndedJobs(store: Store, before: number): Promise<void> {
  await store.system.write([store.system.op(deleteOldJobs, [before])]);
}
