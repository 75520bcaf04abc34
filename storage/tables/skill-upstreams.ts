import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { integer, json, nullable, type RowIn, selectOne, table, text } from "../store/table.ts";
import type { SkillOrigin } from "./skills.ts";

// The origins of imported skills. A row names the newest import of a skill, and the commit of its origin at the last look. A row with a
// new version stays marked until its webhooks are in the outbox.

const upstreamTable = table(
  "skill_upstreams",
  {
    name: text,
    /** In lower case: `github:owner/repo/path`. */
    source: text,
    /** The newest version that was imported. */
    version: text,
    origin: json<SkillOrigin>(),
    tree_hash: text,
    /** Null before the first look. */
    upstream_commit: nullable(text),
    upstream_tree_hash: nullable(text),
    checked_at: nullable(integer),
    /** The code of the refusal that the last look ended with; null for none. */
    error: nullable(text),
    /** When to look again. */
    due_at: integer,
    /** 1 while a new version waits to be announced. */
    notice_due: integer,
    /** The version that was announced last. */
    noticed_tree_hash: nullable(text),
  },
  ({ text: source }) => ({
    ...{
      name: "row",
      source: "row",
      version: source,
      tree_hash: source,
      upstream_commit: source,
      upstream_tree_hash: source,
    },
    origin: {
      source,
      ref: source,
      commit: source,
      tree_hash: source,
      license: source,
      committed_at: 5,
      repository_id: 5,
    },
    ...{ checked_at: 5, error: source, due_at: 5, notice_due: 1, noticed_tree_hash: source },
  }),
);

/** The origin of an imported skill. */
export type SkillUpstreamRow = RowIn<typeof upstreamTable>;

const treeTable = table(
  "skill_trees",
  { repository_id: integer, tree_hash: text, first_seen_at: integer },
  ({ text: tree_hash }) => ({ repository_id: 5, tree_hash, first_seen_at: 5 }),
);

const upsertUpstream = tenantSql(
  "skill_upstreams_insert",
  `INSERT INTO skill_upstreams (tenant_id, ${upstreamTable.columns}) VALUES (:tenant, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
   ON CONFLICT (tenant_id, name) DO UPDATE SET source = excluded.source, version = excluded.version, origin = excluded.origin,
     tree_hash = excluded.tree_hash, upstream_commit = excluded.upstream_commit, upstream_tree_hash = excluded.upstream_tree_hash,
     checked_at = excluded.checked_at, error = NULL, due_at = excluded.due_at`,
);
const deleteUpstream = tenantSql(
  "skill_upstream_delete",
  "DELETE FROM skill_upstreams WHERE tenant_id = :tenant AND name = ?",
);
// The version is compared, so that a look that began before an import does not undo what the import wrote.
const noteLook = tenantSql(
  "skill_upstream_look",
  `UPDATE skill_upstreams SET upstream_commit = ?, upstream_tree_hash = ?, checked_at = ?, error = ?, due_at = ?,
     notice_due = CASE WHEN CAST(? AS TEXT) = tree_hash OR CAST(? AS TEXT) = noticed_tree_hash THEN 0 ELSE 1 END
   WHERE tenant_id = :tenant AND name = ? AND version = ?`,
);
const noteFailure = tenantSql(
  "skill_upstream_failure",
  "UPDATE skill_upstreams SET checked_at = ?, error = ?, due_at = ? WHERE tenant_id = :tenant AND name = ? AND version = ?",
);
const putOff = tenantSql(
  "skill_upstream_put_off",
  "UPDATE skill_upstreams SET due_at = ? WHERE tenant_id = :tenant AND name = ? AND due_at < ?",
);
const endNotice = tenantSql(
  "skill_upstream_noticed",
  `UPDATE skill_upstreams SET notice_due = 0, noticed_tree_hash = upstream_tree_hash
   WHERE tenant_id = :tenant AND name = ? AND notice_due = 1 AND upstream_tree_hash = ?`,
);
const selectPage = tenantSql(
  "skill_upstreams_page",
  `SELECT ${upstreamTable.columns} FROM skill_upstreams WHERE tenant_id = :tenant AND name > ? ORDER BY name LIMIT ?`,
);
const selectBySource = tenantSql(
  "skill_upstreams_of_source",
  `SELECT ${upstreamTable.columns} FROM skill_upstreams INDEXED BY skill_upstreams_by_source
   WHERE tenant_id = :tenant AND source = ? ORDER BY name LIMIT ?`,
);
const selectNotices = tenantSql(
  "skill_upstreams_to_announce",
  `SELECT ${upstreamTable.columns} FROM skill_upstreams INDEXED BY skill_upstreams_noticed
   WHERE tenant_id = :tenant AND notice_due = 1 AND name > ? ORDER BY name LIMIT ?`,
);
const selectDue = systemSql(
  "skill_upstreams_due",
  `SELECT tenant_id, name FROM skill_upstreams INDEXED BY skill_upstreams_due WHERE due_at <= ?
   ORDER BY due_at, tenant_id, name LIMIT ?`,
);
const insertTree = tenantSql(
  "skill_trees_insert",
  `INSERT INTO skill_trees (tenant_id, ${treeTable.columns}) VALUES (:tenant, ?, ?, ?)
   ON CONFLICT (tenant_id, repository_id, tree_hash) DO NOTHING`,
);
const treeOf = selectOne(treeTable, ["repository_id", "tree_hash"]);
const deleteTrees = systemSql(
  "skill_trees_delete_old",
  `DELETE FROM skill_trees WHERE (tenant_id, repository_id, tree_hash) IN
     (SELECT tenant_id, repository_id, tree_hash FROM skill_trees WHERE first_seen_at <= ? ORDER BY first_seen_at LIMIT ?)
   RETURNING first_seen_at`,
);

/** Returns the origin of an imported skill. */
export const skillUpstream = selectOne(upstreamTable, ["name"]);

/** Records an import, and that its origin has nothing newer. */
export function importedOp(
  store: TenantStore,
  {
    name,
    source,
    version,
    origin,
    checked_at,
    due_at,
  }: Pick<SkillUpstreamRow, "name" | "source" | "version" | "origin" | "checked_at" | "due_at">,
): WriteOp {
  const { commit, tree_hash } = origin;
  const seen = { upstream_commit: commit, upstream_tree_hash: tree_hash, checked_at, error: null };
  const row = { name, source, version, origin, tree_hash, ...seen, due_at, notice_due: 0, noticed_tree_hash: null };
  return store.op(upsertUpstream, upstreamTable.encode(row));
}

/** Forgets the origin of a skill. */
export function forgetUpstreamOp(store: TenantStore, name: string): WriteOp {
  return store.op(deleteUpstream, [name]);
}

/** Records the state of the origin. A version that is neither imported nor announced waits to be announced. */
export function lookedOp(
  store: TenantStore,
  { name, version }: Pick<SkillUpstreamRow, "name" | "version">,
  found: { readonly commit: string; readonly tree_hash: string; readonly checked_at: number; readonly due_at: number },
): WriteOp {
  const { commit, tree_hash, checked_at, due_at } = found;
  return store.op(noteLook, [commit, tree_hash, checked_at, null, due_at, tree_hash, tree_hash, name, version]);
}

/** Records why the origin could not be read. */
export function lookFailedOp(
  store: TenantStore,
  { name, version }: Pick<SkillUpstreamRow, "name" | "version">,
  { error, checked_at, due_at }: { readonly error: string; readonly checked_at: number; readonly due_at: number },
): WriteOp {
  return store.op(noteFailure, [checked_at, error, due_at, name, version]);
}

/** Postpones the next look at the origin of a skill. */
export function putOffLookOp(store: TenantStore, name: string, due_at: number): WriteOp {
  return store.op(putOff, [due_at, name, due_at]);
}

/** Ends the announcement of a version. Refuses with conflict if it has ended, or if the origin has another version by now. */
export function noticedOp(store: TenantStore, name: string, tree_hash: string): WriteOp {
  return store.op(endNotice, [name, tree_hash], 1);
}

/** Returns the origins of the tenant's skills after a name, in the order of their names. */
export async function skillUpstreams(store: TenantStore, after: string, limit: number): Promise<SkillUpstreamRow[]> {
  return (await store.read(selectPage, after, limit)).map(upstreamTable.decode);
}

/** Returns the skills that were imported from a source. */
export async function upstreamsOfSource(
  store: TenantStore,
  source: string,
  limit: number,
): Promise<SkillUpstreamRow[]> {
  return (await store.read(selectBySource, source, limit)).map(upstreamTable.decode);
}

/** Returns the skills with a new version that waits to be announced. */
export async function upstreamsToAnnounce(store: TenantStore, limit: number): Promise<SkillUpstreamRow[]> {
  return (await store.read(selectNotices, "", limit)).map(upstreamTable.decode);
}

/** Returns skills of all tenants at whose origins it is time to look, those that wait longest first. */
export async function dueUpstreams(
  store: Scope,
  now: number,
  limit: number,
): Promise<{ readonly tenant_id: string; readonly name: string }[]> {
  const rows = await store.readLong(selectDue, now, limit);
  return rows.map(({ tenant_id, name }) => ({ tenant_id: tenant_id as string, name: name as string }));
}

/** Records that the tenant has seen versions of skills; the first time counts. */
export function seeTreesOps(
  store: TenantStore,
  repository_id: number,
  tree_hashes: readonly string[],
  now: number,
): WriteOp[] {
  return tree_hashes.map((tree_hash) => store.op(insertTree, [repository_id, tree_hash, now]));
}

/** Returns when the tenant first saw a version of a skill; undefined for never. */
export async function firstSeen(
  store: TenantStore,
  repository_id: number,
  tree_hash: string,
): Promise<number | undefined> {
  return (await treeOf(store, repository_id, tree_hash))?.first_seen_at;
}

/** Deletes up to `limit` versions that were first seen at or before `until`. Returns their number. */
export async function deleteOldTrees(store: Scope, until: number, limit: number): Promise<number> {
  const [rows] = await store.write([store.op(deleteTrees, [until, limit])]);
  return rows?.length ?? 0;
}
