import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { SkillFiles } from "../../storage/files/skill-files.ts";
import { requestMs, type TenantStore, type WriteOp } from "../../storage/store/store.ts";
import { upliftForGate } from "../../storage/tables/skill-evals.ts";
import { forgetUpstreamOp } from "../../storage/tables/skill-upstreams.ts";
import {
  advanceOps,
  archiveVersionOp,
  archiveVersionsOp,
  decideVersionOp,
  deleteVersionOp,
  hasSkills,
  insertSkillOp,
  insertVersionOp,
  markStoredOp,
  pendingDrafts,
  type SkillId,
  type SkillRow,
  type SkillVersionId,
  type SkillVersionRow,
  setPolicyOp,
  skillCatalog,
  skillsMax,
  skillVersion,
  skillVersions,
  storedSkill,
  updateSkillOp,
  versionsMax,
} from "../../storage/tables/skills.ts";
import { writeStored } from "../../storage/tables/stored-bytes.ts";
import { unlessChanged } from "../../storage/tables/unless-changed.ts";
import { untilFirst } from "../../storage/tables/until-first.ts";
import { auditOp } from "../audit.ts";
import type { AuditType } from "../audit-types.ts";
import type { ComputePool } from "../compute/compute-pool.ts";
import type { SecretMask } from "../secret-mask.ts";
import type { Settings } from "../settings/settings.ts";
import { isBinaryPath } from "./binary-files.ts";
import type { BundleFiles } from "./bundle.ts";
import type { BundleFault } from "./faults.ts";
import type { HostSkills } from "./host-skills.ts";
import { blockedBy, type PolicySettings, type PolicyValues, policyOf, type SkillPolicy } from "./policy.ts";
import { type BundleReview, reviewJob } from "./review-job.ts";
import { type Bump, firstVersion, isVersion, nextVersion, rankOf } from "./versions.ts";

// The skill library. Routes and tools of agents change it through this service alone, so that the same gate applies to all. A version
// is reviewed when it is saved, and again when it is published: the rules or the policy may have changed in between.

/** Who changes a library. */
export interface Librarian {
  /** The subject of the caller, as author and in the audit. */
  readonly sub: string;
  /** `issuer|subject` of a personal library's owner; empty for the tenant's library. */
  readonly owner: string;
  /** The agent that acts for the caller, and its thread if it has one; null for a person. */
  readonly agent: { readonly manifest: string; readonly session_id: string | null } | null;
}

/** A version to save. */
export interface NewVersion {
  readonly files: BundleFiles;
  readonly reason: string;
  /** The name that the bundle must have; null for a new skill of any name. */
  readonly name: string | null;
  /** The version from which the author started; null for a new skill. */
  readonly parent: string | null;
  /** Null for the next one by `bump`. */
  readonly version: string | null;
  readonly bump: Bump;
  readonly source: SkillVersionRow["source"];
  readonly more?: Partial<Pick<SkillVersionRow, "lineage_import" | "adopted_from" | "promoted_from" | "origin">>;
  /** Further operations of the batch that makes the version visible. */
  readonly also?: (row: SkillVersionRow) => readonly WriteOp[];
  /** The type of the audit row. */
  readonly saved?: Extract<AuditType, "skill_draft_saved" | "skill_adopted" | "skill_promoted">;
}

/** Services of the library. */
export interface LibraryDeps {
  readonly env: Env;
  readonly files: SkillFiles;
  readonly compute: Pick<ComputePool, "run">;
  readonly settings: PolicySettings & Pick<Settings, "tenantStoredBytes">;
  readonly mask: SecretMask;
  readonly host: HostSkills;
}

/** Bytes that a version counts in addition to its files. */
const rowBytes = 2_048;
/** Age at which a version whose files were never stored may be replaced. */
const abandonedMs = 600_000;

/** The preview of a publication. */
export interface Preview {
  readonly review: BundleReview;
  readonly reasons: readonly string[];
}

/** The skills of all tenants: the only way to change them. */
export class SkillLibrary {
  readonly #deps: LibraryDeps;

  constructor(deps: LibraryDeps) {
    this.#deps = deps;
  }

  /** Returns the policy in force. */
  async policy(store: TenantStore): Promise<SkillPolicy> {
    return policyOf(this.#deps.settings, await skillCatalog(store));
  }

  /** Changes the tenant's values of the policy; null removes them. */
  async setPolicy(store: TenantStore, values: Partial<PolicyValues> | null, sub: string): Promise<SkillPolicy> {
    return this.#retried(async () => {
      const catalog = await skillCatalog(store);
      const policy = values === null ? null : { ...catalog.policy, ...values };
      const policy_at = values === null ? null : this.#deps.env.now();
      const row = { policy, policy_at, policy_by: values === null ? null : sub };
      const type = values === null ? "skill_policy_deleted" : "skill_policy_updated";
      const audit = this.#auditOp(store, type, { sub, owner: "", agent: null }, { values: policy });
      const isWritten = await unlessChanged(() =>
        store.write([...advanceOps(store, catalog.revision), setPolicyOp(store, row), audit], requestMs),
      );
      return isWritten ? policyOf(this.#deps.settings, { ...catalog, ...row }) : null;
    });
  }

  /** True if the server itself has a skill of this name. */
  async isOfHost(name: string): Promise<boolean> {
    return (await this.#deps.host.all()).has(name);
  }

  /** Saves a version as a draft. Returns its row. */
  async save(store: TenantStore, library: string, by: Librarian, given: NewVersion): Promise<SkillVersionRow> {
    const review = await this.#review(given.files);
    const name = this.#nameOf(review, given);
    const id = { library, name };
    const skill = await storedSkill(store, library, name);
    await this.#admit(store, id, skill, given);
    const versions = await skillVersions(store, id);
    await this.#removeAbandoned(store, versions);
    const version = versionFor(skill, versions, given);
    const row = this.#rowOf({ library, name, version }, by, given, review);
    await this.#store(store, row, given.files);
    try {
      await this.#finish(store, row, skill, by, given);
    } catch (error) {
      await this.#discard(store, row).catch(() => {});
      throw error;
    }
    return row;
  }

  /** Makes a version the live one; with `isRollback`, one that was live before. Returns its row. */
  async publish(
    store: TenantStore,
    id: SkillVersionId,
    by: Librarian,
    { isRollback, expectedLive }: { readonly isRollback: boolean; readonly expectedLive?: string | null },
  ): Promise<SkillVersionRow> {
    let reviewed: BundleReview | null = null;
    return this.#retried(async () => {
      const { skill, row } = await this.#found(store, id);
      if (expectedLive !== undefined && expectedLive !== skill.live_version) throw new SvcError("live_changed");
      const isReady = isRollback ? row.status === "archived" && row.published_at !== null : row.status === "draft";
      if (!isReady) throw new SvcError("version_conflict");
      // The files of a version never change. The rest is read after the review, because other publications must not overtake it for long.
      reviewed ??= await this.reviewOf(store, row);
      const review = reviewed;
      const catalog = await skillCatalog(store);
      const judged = judgedOf(review, await upliftForGate(store, row));
      const reasons = blockedBy(policyOf(this.#deps.settings, catalog), judged, isRollback);
      if (reasons.length > 0) throw new SvcError("publish_blocked", { detail: { reasons } });
      const now = this.#deps.env.now();
      const after: SkillVersionRow = {
        ...row,
        ...({ status: "live", published_by: by.agent === null ? "operator" : "agent", decided_by: by.sub } as const),
        ...{ decided_at: now, published_at: now, quality_score: review.quality.score },
        ...{ security_status: review.security.status, review: reviewRow(review) },
      };
      const live = skill.live_version;
      const change = {
        ...{ live_version: row.version, latest_version: skill.latest_version, is_deleted: 0, updated_at: now },
        pending_drafts: skill.pending_drafts - (isRollback ? 0 : 1),
      };
      const ops = [
        ...advanceOps(store, catalog.revision),
        ...(live === null ? [] : [archiveVersionOp(store, { ...id, version: live })]),
        decideVersionOp(store, row, after),
        updateSkillOp(store, skill, change),
        this.#auditOp(store, isRollback ? "skill_rolled_back" : "skill_published", by, moveOf(row, { replaced: live })),
      ];
      return (await unlessChanged(() => store.write(ops, requestMs))) ? after : null;
    });
  }

  /** Archives a draft with a note. Returns its row. */
  async reject(store: TenantStore, id: SkillVersionId, by: Librarian, note: string): Promise<SkillVersionRow> {
    return this.#retried(async () => {
      const { skill, row } = await this.#found(store, id);
      if (row.status !== "draft") throw new SvcError("version_conflict");
      const now = this.#deps.env.now();
      const after: SkillVersionRow = {
        ...row,
        ...({ status: "archived", decided_by: by.sub, decision_note: note, decided_at: now } as const),
      };
      const ops = [
        decideVersionOp(store, row, after),
        updateSkillOp(store, skill, { ...skill, pending_drafts: skill.pending_drafts - 1, updated_at: now }),
        this.#auditOp(store, "skill_rejected", by, moveOf(row, { note })),
      ];
      return (await unlessChanged(() => store.write(ops, requestMs))) ? after : null;
    });
  }

  /** Takes a skill out of every catalog: all its versions are archived. */
  async remove(store: TenantStore, id: SkillId, by: Librarian): Promise<void> {
    await this.#retried(async () => {
      const catalog = await skillCatalog(store);
      const skill = await storedSkill(store, id.library, id.name);
      if (skill === undefined || skill.is_deleted === 1) throw new SvcError("not_found");
      const now = this.#deps.env.now();
      const change = { ...skill, live_version: null, pending_drafts: 0, is_deleted: 1, updated_at: now };
      const ops = [
        ...advanceOps(store, catalog.revision),
        archiveVersionsOp(store, id, by.sub, now),
        updateSkillOp(store, skill, change),
        ...(id.library === "" ? [forgetUpstreamOp(store, id.name)] : []),
        this.#auditOp(store, "skill_archived", by, { skill: id.name, library: id.library || "org" }),
      ];
      return (await unlessChanged(() => store.write(ops, requestMs))) || null;
    });
  }

  /** Saves the files of an imported version as a draft of the operator, who vouches for them. */
  async adopt(store: TenantStore, id: SkillVersionId, by: Librarian, reason: string): Promise<SkillVersionRow> {
    const { skill, row } = await this.#found(store, id);
    if (row.source !== "import") throw new SvcError(row.lineage_import === 1 ? "agent_draft" : "not_imported");
    if (row.status === "archived" && row.published_at === null) throw new SvcError("parent_rejected");
    return this.save(store, id.library, by, {
      ...{ files: await this.files(store, row), reason, name: id.name, parent: skill.latest_version, version: null },
      ...({ bump: "patch", source: "operator", saved: "skill_adopted" } as const),
      more: { lineage_import: 0, adopted_from: row.version, origin: row.origin },
    });
  }

  /** Saves the files of a version of a personal library as a draft of the tenant's skill. */
  async promote(store: TenantStore, id: SkillVersionId, by: Librarian, reason: string): Promise<SkillVersionRow> {
    const { row } = await this.#found(store, id);
    const skill = await storedSkill(store, "", id.name);
    return this.save(store, "", { ...by, owner: "" }, {
      files: await this.files(store, row),
      ...{ reason, name: id.name, parent: skill?.latest_version ?? null, version: null, bump: "patch" },
      ...({ source: "promoted", saved: "skill_promoted" } as const),
      more: { lineage_import: row.lineage_import, promoted_from: `~${id.library}/${row.version}` },
    } as NewVersion);
  }

  /** Returns what a publication would find. */
  async preview(store: TenantStore, row: SkillVersionRow): Promise<Preview> {
    const review = await this.reviewOf(store, row);
    return {
      review,
      reasons: blockedBy(await this.policy(store), judgedOf(review, await upliftForGate(store, row)), false),
    };
  }

  /** Returns the faults of a bundle that must have the name. */
  async faultsOf(files: BundleFiles, name: string): Promise<readonly BundleFault[]> {
    const { faults, head } = await this.#review(files);
    const isNamed = head === null || head.name === name;
    return isNamed ? faults : [...faults, misnamed(name)];
  }

  /** Returns the files of a version: texts, and base64 of binary files. Refuses with version_corrupt. */
  async files(store: TenantStore, row: SkillVersionRow): Promise<BundleFiles> {
    const all = await this.#deps.files.readAll(store.tenantId, row, row.files);
    return Object.fromEntries(
      [...all].map(([path, bytes]) => [path, bytes.toString(isBinaryPath(path) ? "base64" : "utf8")]),
    );
  }

  /** Returns one file of a version; null for an unknown path. Refuses with version_corrupt. */
  async file(store: TenantStore, row: SkillVersionRow, path: string): Promise<Buffer | null> {
    const file = row.files.find((one) => one.path === path);
    return file === undefined ? null : this.#deps.files.read(store.tenantId, row, file);
  }

  /** Reviews the files of a version again. Refuses with version_corrupt. */
  async reviewOf(store: TenantStore, row: SkillVersionRow): Promise<BundleReview> {
    const review = await this.#review(await this.files(store, row));
    if (review.digest !== row.digest) throw new SvcError("version_corrupt");
    return review;
  }

  async #review(files: BundleFiles): Promise<BundleReview> {
    return this.#deps.compute.run(reviewJob, files).catch((error: unknown) => {
      throw new SvcError("deadline_exceeded", {}, { cause: error });
    });
  }

  #nameOf({ faults, head }: BundleReview, { name }: NewVersion): string {
    const issues = faults.map(({ path, message }) => ({ path, message }));
    if (head !== null && name !== null && head.name !== name) issues.push(misnamed(name));
    if (issues.length > 0 || head === null) throw new SvcError("invalid_bundle", { detail: { issues } });
    return head.name;
  }

  async #admit(
    store: TenantStore,
    { library, name }: SkillId,
    skill: SkillRow | undefined,
    { parent }: NewVersion,
  ): Promise<void> {
    if (parent === null) {
      if (skill !== undefined && skill.is_deleted === 0) throw new SvcError("skill_exists");
      if (library === "" && (await this.isOfHost(name))) throw new SvcError("name_shadows_host_skill");
      if (skill === undefined && (await hasSkills(store, library, skillsMax))) throw new SvcError("skills_full");
    } else {
      if (skill === undefined || skill.is_deleted === 1) throw new SvcError("not_found");
      if (parent !== skill.latest_version) throw new SvcError("parent_changed");
    }
  }

  #rowOf(id: SkillVersionId, by: Librarian, given: NewVersion, review: BundleReview): SkillVersionRow {
    const { parent, reason, source, more = {} } = given;
    const size = review.files.reduce((sum, file) => sum + file.size, 0);
    const head = review.head as unknown as SkillVersionRow["head"];
    const row: Omit<SkillVersionRow, "bytes"> = {
      ...id,
      rank: rankOf(id.version),
      ...({ is_stored: 0, parent_version: parent, status: "draft", source, author: by.sub, reason } as const),
      origin_manifest_id: by.agent?.manifest ?? null,
      session_id: by.agent?.session_id ?? null,
      quality_score: review.quality.score,
      security_status: review.security.status,
      ...({ published_by: "", decided_by: null, decision_note: null, created_at: this.#deps.env.now() } as const),
      ...{ decided_at: null, published_at: null, origin: null, lineage_import: 0, adopted_from: null },
      ...{ promoted_from: null, digest: review.digest, head, review: reviewRow(review), files: review.files },
      ...more,
    };
    return { ...row, bytes: rowBytes + size + Buffer.byteLength(JSON.stringify(row)) };
  }

  /** Writes the row, then the files, so that no object exists without a row. */
  async #store(store: TenantStore, row: SkillVersionRow, files: BundleFiles): Promise<void> {
    const change = { kind: "skills", bytes: row.bytes } as const;
    const isNew = await unlessChanged(() =>
      writeStored(store, change, this.#deps.settings.tenantStoredBytes, [insertVersionOp(store, row)]),
    );
    if (!isNew) throw new SvcError("version_conflict");
    const bytes = Object.entries(files).map(
      ([path, content]) => [path, Buffer.from(content, isBinaryPath(path) ? "base64" : "utf8")] as const,
    );
    try {
      await this.#deps.files.put(store.tenantId, row, new Map(bytes));
    } catch (error) {
      await this.#discard(store, row).catch(() => {});
      throw error;
    }
  }

  /** Makes a stored version visible, together with its skill. */
  async #finish(
    store: TenantStore,
    row: SkillVersionRow,
    skill: SkillRow | undefined,
    by: Librarian,
    { saved = "skill_draft_saved", also }: NewVersion,
  ): Promise<void> {
    const { library, name, version, created_at } = row;
    const op: WriteOp =
      skill === undefined
        ? insertSkillOp(store, {
            ...{ library, name, owner: by.owner, live_version: null, latest_version: version, pending_drafts: 1 },
            ...{ is_deleted: 0, created_by: by.sub, created_at, updated_at: created_at },
          })
        : updateSkillOp(store, skill, {
            ...{ ...skill, latest_version: version, pending_drafts: skill.pending_drafts + 1, is_deleted: 0 },
            updated_at: created_at,
          });
    const from = row.origin === null ? {} : { source: row.origin.source, commit: row.origin.commit };
    const audit = this.#auditOp(store, saved, by, moveOf(row, from));
    const ops = [markStoredOp(store, row), op, ...(also?.(row) ?? []), audit];
    const isDone = await unlessChanged(() => store.write(ops, requestMs));
    if (!isDone) throw new SvcError(skill === undefined ? "skill_exists" : "parent_changed");
  }

  async #discard(store: TenantStore, row: SkillVersionRow): Promise<void> {
    const paths = row.files.map(({ path }) => path);
    await this.#deps.files.delete(store.tenantId, row, paths);
    await writeStored(store, { kind: "skills", bytes: -row.bytes }, 0, [deleteVersionOp(store, row)]);
  }

  /** Deletes versions that a dead process has left without files. */
  async #removeAbandoned(store: TenantStore, versions: readonly SkillVersionRow[]): Promise<void> {
    const before = this.#deps.env.now() - abandonedMs;
    for (const row of versions)
      if (row.is_stored === 0 && row.created_at < before) await this.#discard(store, row).catch(() => {});
  }

  async #found(store: TenantStore, id: SkillVersionId): Promise<{ skill: SkillRow; row: SkillVersionRow }> {
    const [skill, row] = await Promise.all([storedSkill(store, id.library, id.name), skillVersion(store, id)]);
    if (skill === undefined || row === undefined) throw new SvcError("not_found");
    return { skill, row };
  }

  async #retried<T>(change: () => Promise<T | null>): Promise<T> {
    const done = await untilFirst(this.#deps.env, change);
    if (done === null) throw new SvcError("conflict");
    return done;
  }

  #auditOp(
    store: TenantStore,
    event_type: AuditType,
    { sub, agent }: Librarian,
    payload: Readonly<Record<string, unknown>>,
  ): WriteOp {
    const manifest_id = agent?.manifest ?? "";
    const more = agent === null || agent.session_id === null ? {} : { thread_id: agent.session_id };
    return auditOp(store, this.#deps, {
      ...{ event_type, status: "ok", manifest_id, principal_subj: sub, payload: { ...payload, ...more } },
    });
  }
}

function misnamed(name: string): BundleFault {
  return { path: "SKILL.md", message: `name must be ${name}` };
}

/** Refuses with pending_cap_reached if an agent has as many drafts as it may. */
export async function admitDraft(store: TenantStore, library: string, manifest: string, most: number): Promise<void> {
  if ((await pendingDrafts(store, library, manifest)) >= most) throw new SvcError("pending_cap_reached");
}

function judgedOf({ faults, quality, security }: BundleReview, uplift: number | undefined) {
  return { isValid: faults.length === 0, quality_score: quality.score, security_status: security.status, uplift };
}

function reviewRow({ quality, security }: BundleReview): SkillVersionRow["review"] {
  return { checks: quality.checks, issues: security.issues };
}

function moveOf({ library, name, version }: SkillVersionRow, more: Readonly<Record<string, unknown>>) {
  return { skill: name, version, library: library || "org", ...more };
}

/** Returns the version to save. Refuses with version_conflict and version_cap_reached. */
function versionFor(
  skill: SkillRow | undefined,
  versions: readonly SkillVersionRow[],
  { version, bump }: Pick<NewVersion, "version" | "bump">,
): string {
  if (versions.length >= versionsMax) throw new SvcError("version_cap_reached");
  const latest = skill?.latest_version ?? null;
  let next = version ?? (latest === null ? firstVersion : nextVersion(latest, bump));
  // A process that died while it stored files has left a row: its number is skipped, so that a retry need not wait for its removal.
  const taken = new Set(versions.map((row) => row.version));
  while (version === null && taken.has(next)) next = nextVersion(next, "patch");
  const isHigher = latest === null || rankOf(next) > rankOf(latest);
  if (!isVersion(next) || !isHigher) throw new SvcError("version_conflict");
  return next;
}
