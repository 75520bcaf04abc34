import { type Row, tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, json, nullable, oneOf, type RowIn, selectOne, table, text } from "../store/table.ts";

// The skill library of a tenant. A library is the tenant's own (an empty name), or that of a person (a digest). A version never
// changes its files; its status does: `draft` until a decision, `live` while it is published, then `archived`.

const skillTable = table(
  "skills",
  {
    library: text,
    name: text,
    /** `issuer|subject` of the person whose library it is; empty for the tenant's own. */
    owner: text,
    live_version: nullable(text),
    latest_version: text,
    pending_drafts: integer,
    /** 1 after a deletion, until the next version is saved or published. */
    is_deleted: integer,
    created_by: text,
    created_at: integer,
    updated_at: integer,
  },
  ({ text: owner }) => ({
    ...{ library: "row", name: "row", owner, live_version: "row", latest_version: "row", pending_drafts: 5 },
    ...{ is_deleted: 0, created_by: owner, created_at: 5, updated_at: 5 },
  }),
);

/** A skill of a library. */
export type SkillRow = RowIn<typeof skillTable>;

/** A digest and size of a file of a version. */
export interface StoredSkillFile {
  readonly path: string;
  readonly sha256: string;
  readonly size: number;
}

/** Where an imported version is from. */
export interface SkillOrigin {
  readonly source: string;
  readonly ref: string;
  readonly commit: string;
  readonly tree_hash: string;
  readonly license: string | null;
  readonly committed_at: number | null;
  /** The number of the repository at the code host, which its next owner does not get. */
  readonly repository_id: number;
}

const versionTable = table(
  "skill_versions",
  {
    library: text,
    name: text,
    version: text,
    /** The version with padded numbers, in the order of versions. */
    rank: text,
    /** 0 while its files are being stored. */
    is_stored: integer,
    parent_version: nullable(text),
    status: oneOf("draft", "live", "archived"),
    source: oneOf("operator", "agent", "import", "promoted"),
    author: text,
    /** The agent and the thread that wrote it; null for a version that a person saved. */
    origin_manifest_id: nullable(text),
    session_id: nullable(text),
    reason: text,
    quality_score: integer,
    security_status: oneOf("pass", "advisory", "fail"),
    /** Who made it live: `operator` or `agent`; empty before. */
    published_by: oneOf("", "operator", "agent"),
    decided_by: nullable(text),
    decision_note: nullable(text),
    created_at: integer,
    decided_at: nullable(integer),
    /** Null for a version that was never live. */
    published_at: nullable(integer),
    origin: json<SkillOrigin | null>(),
    /** 1 if its text descends from an import that no operator has adopted. */
    lineage_import: integer,
    adopted_from: nullable(text),
    promoted_from: nullable(text),
    /** SHA-256 of the bundle. */
    digest: text,
    head: json<Readonly<Record<string, unknown>>>(),
    review: json<Readonly<Record<string, unknown>>>(),
    files: json<readonly StoredSkillFile[]>(),
    /** Bytes that it counts against the quota. */
    bytes: integer,
  },
  ({ text: author }) => ({
    ...({ library: "row", name: "row", version: "row", rank: "row", is_stored: 1, parent_version: null } as const),
    ...({ status: "draft", source: "operator", author, origin_manifest_id: author, session_id: author } as const),
    ...({ reason: author, quality_score: 5, security_status: "pass", published_by: "operator" } as const),
    ...{ decided_by: author, decision_note: author, created_at: 5, decided_at: 5, published_at: 5, origin: null },
    ...{ lineage_import: 0, adopted_from: author, promoted_from: author, digest: author },
    ...{ head: { description: author }, review: { text: author }, files: [], bytes: 5 },
  }),
);

/** A version of a skill. */
export type SkillVersionRow = RowIn<typeof versionTable>;

const catalogTable = table(
  "skill_catalogs",
  {
    revision: integer,
    /** The tenant's values of the publish policy; null for none. */
    policy: nullable(json<Readonly<Record<string, unknown>>>()),
    policy_at: nullable(integer),
    policy_by: nullable(text),
  },
  ({ text: policy_by }) => ({ revision: 5, policy: { text: policy_by }, policy_at: 5, policy_by }),
);

/** The revision and the policy of a tenant's libraries. */
export type SkillCatalogRow = RowIn<typeof catalogTable>;

/** Identifies a skill. */
export type SkillId = Pick<SkillRow, "library" | "name">;
/** Identifies a version. */
export type SkillVersionId = Pick<SkillVersionRow, "library" | "name" | "version">;

/** Max skills of one library, and versions of one skill. */
export const skillsMax = 5_000;
export const versionsMax = 200;

const selectCatalog = tenantSql(
  "skill_catalog",
  `SELECT ${catalogTable.columns} FROM skill_catalogs WHERE tenant_id = :tenant`,
);
const insertCatalog = tenantSql(
  "skill_catalogs_insert",
  `INSERT INTO skill_catalogs (tenant_id, ${catalogTable.columns}) VALUES (:tenant, ?, ?, ?, ?)
   ON CONFLICT (tenant_id) DO NOTHING`,
);
const advanceCatalog = tenantSql(
  "skill_catalog_advance",
  "UPDATE skill_catalogs SET revision = revision + 1 WHERE tenant_id = :tenant AND revision = ?",
);
const setPolicy = tenantSql(
  "skill_policy_set",
  "UPDATE skill_catalogs SET policy = ?, policy_at = ?, policy_by = ? WHERE tenant_id = :tenant",
);
const insertSkill = insertInto(skillTable);
const updateSkill = tenantSql(
  "skill_update",
  `UPDATE skills SET live_version = ?, latest_version = ?, pending_drafts = ?, is_deleted = ?, updated_at = ?
   WHERE tenant_id = :tenant AND library = ? AND name = ? AND updated_at = ? AND latest_version = ?`,
);
const selectSkills = tenantSql(
  "skills_page",
  `SELECT ${skillTable.columns} FROM skills WHERE tenant_id = :tenant AND library = ? AND name > ? ORDER BY name LIMIT ?`,
);
const selectNth = tenantSql(
  "skills_nth",
  "SELECT 1 AS is_there FROM skills WHERE tenant_id = :tenant AND library = ? ORDER BY name LIMIT 1 OFFSET ?",
);
const selectLibraries = tenantSql(
  "skill_libraries",
  `SELECT library, MIN(owner) AS owner, COUNT(*) AS skills FROM skills
   WHERE tenant_id = :tenant AND library > '' GROUP BY library ORDER BY library LIMIT ?`,
);
const insertVersion = insertInto(versionTable);
const deleteVersion = tenantSql(
  "skill_version_delete",
  "DELETE FROM skill_versions WHERE tenant_id = :tenant AND library = ? AND name = ? AND version = ? AND is_stored = 0",
);
const markStored = tenantSql(
  "skill_version_stored",
  `UPDATE skill_versions SET is_stored = 1
   WHERE tenant_id = :tenant AND library = ? AND name = ? AND version = ? AND is_stored = 0`,
);
const decideVersion = tenantSql(
  "skill_version_decide",
  `UPDATE skill_versions SET status = ?, published_by = ?, decided_by = ?, decision_note = ?, decided_at = ?, published_at = ?,
     quality_score = ?, security_status = ?, review = ?
   WHERE tenant_id = :tenant AND library = ? AND name = ? AND version = ? AND status = ? AND is_stored = 1`,
);
const archiveVersion = tenantSql(
  "skill_version_archive",
  `UPDATE skill_versions SET status = 'archived'
   WHERE tenant_id = :tenant AND library = ? AND name = ? AND version = ? AND status = 'live'`,
);
const archiveAll = tenantSql(
  "skill_versions_archive",
  `UPDATE skill_versions SET status = 'archived', decided_by = ?, decided_at = ?
   WHERE tenant_id = :tenant AND library = ? AND name = ? AND status <> 'archived'`,
);
const selectVersions = tenantSql(
  "skill_versions_of_skill",
  `SELECT ${versionTable.columns} FROM skill_versions WHERE tenant_id = :tenant AND library = ? AND name = ?
   ORDER BY rank DESC LIMIT ?`,
);
const versionOf = selectOne(versionTable, ["library", "name", "version"]);
const selectDrafts = tenantSql(
  "skill_drafts",
  `SELECT ${versionTable.columns} FROM skill_versions
   WHERE tenant_id = :tenant AND library = ? AND status = 'draft' AND is_stored = 1 AND (created_at, name, version) > (?, ?, ?)
   ORDER BY created_at, name, version LIMIT ?`,
);
const countPending = tenantSql(
  "skill_drafts_of_agents",
  `SELECT COUNT(*) AS drafts FROM skill_versions
   WHERE tenant_id = :tenant AND library = ? AND status = 'draft' AND is_stored = 1 AND source = 'agent' AND origin_manifest_id = ?`,
);
const liveColumns =
  "s.name, s.updated_at, v.version, v.source, v.published_by, v.lineage_import, v.head, v.files, v.digest";
const liveOfLibrary = `FROM skills s
   JOIN skill_versions v ON v.tenant_id = s.tenant_id AND v.library = s.library AND v.name = s.name AND v.version = s.live_version
   WHERE s.tenant_id = :tenant AND s.library = ?`;
const selectLive = tenantSql(
  "skills_live",
  `SELECT ${liveColumns} ${liveOfLibrary} AND s.name > ? ORDER BY s.name LIMIT ?`,
);
const selectLiveOne = tenantSql("skill_live", `SELECT ${liveColumns} ${liveOfLibrary} AND s.name = ?`);
const selectLiveMarks = tenantSql(
  "skills_live_marks",
  `SELECT name, updated_at FROM skills WHERE tenant_id = :tenant AND library = ? AND live_version IS NOT NULL ORDER BY name LIMIT ?`,
);
/** Returns a skill of a library. */
export const storedSkill = selectOne(skillTable, ["library", "name"]);

/** Returns the revision and policy of a tenant; revision 0 before its first skill. */
export async function skillCatalog(store: TenantStore): Promise<SkillCatalogRow> {
  const [row] = await store.read(selectCatalog);
  return row === undefined ? { revision: 0, policy: null, policy_at: null, policy_by: null } : catalogTable.decode(row);
}

/** Guards a change on the revision at which it was decided, and counts it. Refuses with conflict if the revision has moved. */
export function advanceOps(store: TenantStore, revision: number): WriteOp[] {
  return [store.op(insertCatalog, [0, null, null, null]), store.op(advanceCatalog, [revision], 1)];
}

/** Sets the tenant's values of the policy; null removes them. */
export function setPolicyOp(
  store: TenantStore,
  { policy, policy_at, policy_by }: Omit<SkillCatalogRow, "revision">,
): WriteOp {
  return store.op(setPolicy, [policy === null ? null : JSON.stringify(policy), policy_at, policy_by], 1);
}

/** Inserts a skill. Refuses with conflict if it exists. */
export function insertSkillOp(store: TenantStore, row: SkillRow): WriteOp {
  return insertSkill(store, row);
}

/** Changes a skill as it was read. Refuses with conflict if it has changed since. */
export function updateSkillOp(
  store: TenantStore,
  before: SkillRow,
  after: Pick<SkillRow, "live_version" | "latest_version" | "pending_drafts" | "is_deleted" | "updated_at">,
): WriteOp {
  const { live_version, latest_version, pending_drafts, is_deleted, updated_at } = after;
  const values = [live_version, latest_version, Math.max(0, pending_drafts), is_deleted];
  const seen = [before.library, before.name, before.updated_at, before.latest_version];
  return store.op(updateSkill, [...values, Math.max(updated_at, before.updated_at + 1), ...seen], 1);
}

/** Returns the skills of a library after a name, in the order of their names. */
export async function skillPage(
  store: TenantStore,
  library: string,
  after: string,
  limit: number,
): Promise<SkillRow[]> {
  return (await store.read(selectSkills, library, after, limit)).map(skillTable.decode);
}

/** True if the library has at least `count` skills. */
export async function hasSkills(store: TenantStore, library: string, count: number): Promise<boolean> {
  return (await store.read(selectNth, library, count - 1)).length > 0;
}

/** Returns the personal libraries of a tenant. */
export async function personalLibraries(
  store: TenantStore,
  limit: number,
): Promise<{ readonly library: string; readonly owner: string; readonly skills: number }[]> {
  const rows = await store.readLong(selectLibraries, limit);
  return rows.map(({ library, owner, skills }) => ({
    library: library as string,
    owner: owner as string,
    skills: Number(skills),
  }));
}

/** Inserts a version whose files are not stored yet. Refuses with conflict if it exists. */
export function insertVersionOp(store: TenantStore, row: SkillVersionRow): WriteOp {
  return insertVersion(store, row);
}

/** Deletes a version whose files could not be stored. */
export function deleteVersionOp(store: TenantStore, { library, name, version }: SkillVersionId): WriteOp {
  return store.op(deleteVersion, [library, name, version], 1);
}

/** Makes a version visible after its files are stored. */
export function markStoredOp(store: TenantStore, { library, name, version }: SkillVersionId): WriteOp {
  return store.op(markStored, [library, name, version], 1);
}

/** Changes the status of a version as it was read. Refuses with conflict if it has changed since. */
export function decideVersionOp(store: TenantStore, before: SkillVersionRow, after: SkillVersionRow): WriteOp {
  const { library, name, version, status } = before;
  const decided = [after.status, after.published_by, after.decided_by, after.decision_note, after.decided_at];
  const found = [after.published_at, after.quality_score, after.security_status, JSON.stringify(after.review)];
  return store.op(decideVersion, [...decided, ...found, library, name, version, status], 1);
}

/** Archives the version that another one replaces. */
export function archiveVersionOp(store: TenantStore, { library, name, version }: SkillVersionId): WriteOp {
  return store.op(archiveVersion, [library, name, version], 1);
}

/** Archives all versions of a skill. */
export function archiveVersionsOp(store: TenantStore, { library, name }: SkillId, by: string, now: number): WriteOp {
  return store.op(archiveAll, [by, now, library, name]);
}

/** Returns the versions of a skill, the highest first, those without files included. */
export async function skillVersions(store: TenantStore, { library, name }: SkillId): Promise<SkillVersionRow[]> {
  return (await store.read(selectVersions, library, name, versionsMax + 50)).map(versionTable.decode);
}

/** Returns a version with its files; undefined for none. */
export async function skillVersion(
  store: TenantStore,
  { library, name, version }: SkillVersionId,
): Promise<SkillVersionRow | undefined> {
  const row = await versionOf(store, library, name, version);
  return row?.is_stored === 1 ? row : undefined;
}

/** Returns drafts of a library after a position, the oldest first. */
export async function skillDrafts(
  store: TenantStore,
  library: string,
  after: readonly [created_at: number, name: string, version: string],
  limit: number,
): Promise<SkillVersionRow[]> {
  return (await store.read(selectDrafts, library, ...after, limit)).map(versionTable.decode);
}

/** Returns how many drafts of an agent wait for a decision. */
export async function pendingDrafts(store: TenantStore, library: string, manifest: string): Promise<number> {
  const [row] = await store.read(countPending, library, manifest);
  return Number(row?.drafts ?? 0);
}

/** A published skill, for catalogs. */
export type LiveSkillRow = Pick<
  SkillVersionRow,
  "name" | "version" | "source" | "published_by" | "lineage_import" | "head" | "files" | "digest"
>;

/** A published skill as a library has it. `updated_at` is another one after each change of the skill. */
export type MarkedSkillRow = LiveSkillRow & Pick<SkillRow, "updated_at">;

/** Published skills that one read returns. */
const livePageMax = 250;

/** Returns the published skills of a library, in the order of their names. Each page of them is a read of its own. */
export async function liveSkills(store: TenantStore, library: string): Promise<MarkedSkillRow[]> {
  const all: MarkedSkillRow[] = [];
  let page: Row[];
  do {
    page = await store.readLong(selectLive, library, all.at(-1)?.name ?? "", livePageMax);
    all.push(...page.map(liveRow));
  } while (page.length === livePageMax && all.length < skillsMax);
  return all;
}

/** Returns a published skill of a library; undefined for none. */
export async function liveSkill(store: TenantStore, { library, name }: SkillId): Promise<MarkedSkillRow | undefined> {
  const [row] = await store.read(selectLiveOne, library, name);
  return row && liveRow(row);
}

/** Returns the names of the published skills of a library with the times of their last changes, in the order of the names. */
export async function liveSkillMarks(
  store: TenantStore,
  library: string,
): Promise<Pick<MarkedSkillRow, "name" | "updated_at">[]> {
  const rows = await store.readLong(selectLiveMarks, library, skillsMax);
  return rows.map(({ name, updated_at }) => ({ name: name as string, updated_at: Number(updated_at) }));
}

/** Decodes a published skill. Its list of files is decoded when it is needed: a catalog has up to a million files. */
function liveRow({ files: text, head, updated_at, ...row }: Row): MarkedSkillRow {
  let files: MarkedSkillRow["files"] | null = null;
  return {
    ...(row as unknown as LiveSkillRow),
    updated_at: Number(updated_at),
    head: JSON.parse(head as string) as LiveSkillRow["head"],
    get files() {
      files ??= JSON.parse(text as string) as MarkedSkillRow["files"];
      return files;
    },
  };
}
