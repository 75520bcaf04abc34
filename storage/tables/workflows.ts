import { list } from "../store/list.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, json, oneOf, type RowIn, selectOne, table, text } from "../store/table.ts";
import type { JobOwner } from "./jobs.ts";
import { writeStored } from "./stored-bytes.ts";

// Workflows and their revisions. Each save writes a revision, which never changes. The newest revisions are kept, and older ones while a run
// or a trigger needs them. The row of a deleted workflow is kept, so that a new workflow of this id continues its revision numbers.

const workflowTable = table(
  "workflows",
  {
    id: text,
    name: text,
    description: text,
    /** The newest revision, which new runs get. */
    revision: integer,
    created_at: integer,
    /** Time of the last save or of the deletion. */
    ts: integer,
    /** Subject of the last author. */
    saved_by: text,
    state: oneOf("live", "deleted"),
  },
  ({ text }) => ({
    ...{ id: "row", name: text, description: text, revision: 1, created_at: 5, ts: 5, saved_by: text },
    state: "live" as const,
  }),
);

/** A stored workflow without its document. */
export type WorkflowRow = RowIn<typeof workflowTable>;

const revisionTable = table(
  "workflow_revisions",
  {
    workflow_id: text,
    revision: integer,
    /** JSON of the document, as its author sent it. */
    definition: text,
    /** The author. Runs have no scope that the author lacks (decision 259). */
    saver: json<JobOwner>(),
    saved_at: integer,
    /** Bytes that the revision counts against the quota. */
    bytes: integer,
  },
  ({ text }) => ({
    ...{ workflow_id: "row", revision: 1, definition: text, saved_at: 5, bytes: 5 },
    saver: { sub: text, scopes: [], scheme: "api_key", issuer: "" },
  }),
);

/** A revision of a workflow. */
export type RevisionRow = RowIn<typeof revisionTable>;

/** Revisions that stay without a run that needs them. */
const revisionsKept = 50;
/** Bytes that a revision counts in addition to its text. */
const rowBytes = 512;
/** Rows of deleted workflows that stay. */
const deletedKept = 1_000;

const insertWorkflow = insertInto(workflowTable);
const insertRevision = insertInto(revisionTable);
const updateWorkflow = tenantSql(
  "workflow_update",
  `UPDATE workflows SET name = ?, description = ?, revision = revision + 1, created_at = ?, ts = ?, saved_by = ?, state = 'live'
   WHERE tenant_id = :tenant AND id = ? AND revision = ? AND state = ?`,
);
const deleteWorkflow = tenantSql(
  "workflow_delete",
  `UPDATE workflows SET name = '', description = '', ts = ?, saved_by = '', state = 'deleted'
   WHERE tenant_id = :tenant AND id = ? AND revision = ? AND state = 'live'`,
);
const selectNth = tenantSql(
  "workflows_live_nth",
  "SELECT 1 AS is_there FROM workflows WHERE tenant_id = :tenant AND state = 'live' LIMIT 1 OFFSET ?",
);
const selectUnneeded = tenantSql(
  "workflow_revisions_unneeded",
  `SELECT revision, bytes FROM workflow_revisions v
   WHERE tenant_id = :tenant AND workflow_id = ? AND revision <= ? AND NOT EXISTS
     (SELECT 1 FROM workflow_runs r WHERE r.tenant_id = :tenant AND r.workflow_id = v.workflow_id AND r.revision = v.revision)
   ORDER BY revision LIMIT ?`,
);
const dropRevision = tenantSql(
  "workflow_revision_delete",
  `DELETE FROM workflow_revisions WHERE tenant_id = :tenant AND workflow_id = ? AND revision = ? AND NOT EXISTS
     (SELECT 1 FROM workflow_runs r WHERE r.tenant_id = :tenant AND r.workflow_id = workflow_revisions.workflow_id
        AND r.revision = workflow_revisions.revision)`,
);
/** Locks a revision, so that starts and deletions wait for each other. On Postgres the next statement sees what the other one wrote. */
const lockRevision = tenantSql(
  "workflow_revision_lock",
  "UPDATE workflow_revisions SET bytes = bytes WHERE tenant_id = :tenant AND workflow_id = ? AND revision = ?",
);
const forgetDeleted = tenantSql(
  "workflows_forget",
  `DELETE FROM workflows WHERE tenant_id = :tenant AND state = 'deleted' AND id IN
     (SELECT id FROM workflows WHERE tenant_id = :tenant AND state = 'deleted' ORDER BY ts DESC LIMIT 1000 OFFSET ${deletedKept})
     AND NOT EXISTS (SELECT 1 FROM workflow_revisions v WHERE v.tenant_id = :tenant AND v.workflow_id = workflows.id)`,
);

const selectDeletedStored = systemSql(
  "workflows_deleted_stored",
  `SELECT tenant_id, id, revision FROM workflows w WHERE state = 'deleted' AND (tenant_id, id) > (?, ?) AND EXISTS
     (SELECT 1 FROM workflow_revisions v WHERE v.tenant_id = w.tenant_id AND v.workflow_id = w.id)
   ORDER BY tenant_id, id LIMIT ?`,
);

const workflowById = selectOne(workflowTable, ["id"]);

/** Returns a revision of a workflow, also of a deleted one. */
export const workflowRevision = selectOne(revisionTable, ["workflow_id", "revision"]);

/** Returns a page of workflows, most recently saved first, for the filter `state`. Refuses with invalid_cursor. */
export const workflowsPage = list(workflowTable, ["state"], { indexes: { state: "workflows_by_state" } }).page;

/** Returns a workflow that is not deleted. */
export async function liveWorkflow(store: TenantStore, id: string): Promise<WorkflowRow | undefined> {
  const row = await workflowById(store, id);
  return row?.state === "live" ? row : undefined;
}

/** Returns the row of a workflow, also of a deleted one. */
export function anyWorkflow(store: TenantStore, id: string): Promise<WorkflowRow | undefined> {
  return workflowById(store, id);
}

/** True if the tenant has at least `count` workflows. */
export async function hasWorkflows(store: TenantStore, count: number): Promise<boolean> {
  return (await store.read(selectNth, count - 1)).length > 0;
}

/** A save of a workflow. */
export interface SavedWorkflow {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly definition: string;
  readonly saver: JobOwner;
}

/**
 * Writes the next revision after `before`, the row as it was read. Old revisions that no run needs go, except `pinned` ones. Refuses with
 * storage_quota_exceeded, and with conflict if the row has changed.
 */
export async function saveWorkflow(
  store: TenantStore,
  before: WorkflowRow | undefined,
  { id, name, description, definition, saver }: SavedWorkflow,
  { now, limit, pinned, ops }: { now: number; limit: number; pinned: readonly number[]; ops: readonly WriteOp[] },
): Promise<WorkflowRow> {
  const revision = (before?.revision ?? 0) + 1;
  const created_at = before?.state === "live" ? before.created_at : now;
  const row: WorkflowRow = {
    ...{ id, name, description, revision, created_at, ts: now, saved_by: saver.sub },
    state: "live",
  };
  const bytes = Buffer.byteLength(definition + name + description) + rowBytes;
  const op =
    before === undefined
      ? insertWorkflow(store, row)
      : store.op(updateWorkflow, [name, description, created_at, now, saver.sub, id, before.revision, before.state], 1);
  const old = await unneeded(store, id, revision - revisionsKept, pinned);
  const freed = old.reduce((sum, one) => sum + one.bytes, 0);
  await writeStored(store, { kind: "workflows", bytes: bytes - freed }, limit, [
    op,
    insertRevision(store, { workflow_id: id, revision, definition, saver, saved_at: now, bytes }),
    ...old.flatMap((one) => dropOps(store, id, one.revision)),
    ...ops,
  ]);
  return row;
}

/** Deletes a workflow at the revision of `row`. Revisions that runs need stay. Refuses with conflict if the row has changed. */
export async function removeWorkflow(
  store: TenantStore,
  { id, revision }: WorkflowRow,
  { now, pinned, ops }: { now: number; pinned: readonly number[]; ops: readonly WriteOp[] },
): Promise<void> {
  const old = await unneeded(store, id, revision, pinned);
  const freed = old.reduce((sum, one) => sum + one.bytes, 0);
  await writeStored(store, { kind: "workflows", bytes: -freed }, 0, [
    store.op(deleteWorkflow, [now, id, revision], 1),
    ...old.flatMap((one) => dropOps(store, id, one.revision)),
    store.op(forgetDeleted, []),
    ...ops,
  ]);
}

/** A deleted workflow. */
export type DeletedWorkflow = Pick<WorkflowRow, "id" | "revision"> & { readonly tenant_id: string };

/** Returns the deleted workflows that still have revisions, in pages. */
export async function deletedWithRevisions(
  store: Scope,
  after: DeletedWorkflow | null,
  limit: number,
): Promise<DeletedWorkflow[]> {
  const rows = await store.read(selectDeletedStored, after?.tenant_id ?? "", after?.id ?? "", limit);
  return rows as unknown as DeletedWorkflow[];
}

/** Deletes the revisions of a deleted workflow that no run needs any more, except `pinned` ones. */
export async function dropUnneeded(
  store: TenantStore,
  { id, revision }: Pick<WorkflowRow, "id" | "revision">,
  pinned: readonly number[],
): Promise<void> {
  const old = await unneeded(store, id, revision, pinned);
  if (old.length === 0) return;
  const freed = old.reduce((sum, one) => sum + one.bytes, 0);
  const ops = old.flatMap((one) => dropOps(store, id, one.revision));
  await writeStored(store, { kind: "workflows", bytes: -freed }, 0, ops);
}

/** Requires a revision in the batch that begins a run of it. Refuses with conflict if it was deleted. */
export function needRevisionOp(store: TenantStore, id: string, revision: number): WriteOp {
  return store.op(lockRevision, [id, revision], 1);
}

/** Deletes a revision. Refuses with conflict if a run has begun with it since it was read. */
function dropOps(store: TenantStore, id: string, revision: number): WriteOp[] {
  return [store.op(lockRevision, [id, revision]), store.op(dropRevision, [id, revision], 1)];
}

async function unneeded(
  store: TenantStore,
  id: string,
  upTo: number,
  pinned: readonly number[],
): Promise<Pick<RevisionRow, "revision" | "bytes">[]> {
  if (upTo < 1) return [];
  const rows = (await store.read(selectUnneeded, id, upTo, 200)) as unknown as Pick<
    RevisionRow,
    "revision" | "bytes"
  >[];
  return rows.filter(({ revision }) => !pinned.includes(revision));
}
