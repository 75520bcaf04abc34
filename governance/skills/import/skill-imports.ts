import type { Env } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import { requestMs, type Store, type TenantStore } from "../../../storage/store/store.ts";
import {
  firstSeen,
  importedOp,
  lookedOp,
  type SkillUpstreamRow,
  seeTreesOps,
  skillUpstream,
  upstreamsOfSource,
} from "../../../storage/tables/skill-upstreams.ts";
import { type SkillVersionRow, skillVersion, storedSkill } from "../../../storage/tables/skills.ts";
import type { ComputePool } from "../../compute/compute-pool.ts";
import type { Settings } from "../../settings/settings.ts";
import type { Librarian, SkillLibrary } from "../library.ts";
import type { ImportBudget } from "./budget.ts";
import type { CodeHost, HostCaller } from "./code-host.ts";
import { HostWork } from "./host-work.ts";
import { type BundleDiff, importWork, type SentBundle } from "./import-job.ts";
import { isFrom, type Located, locate, originOf, readFolder } from "./located.ts";
import { type FoundSkill, findSkills } from "./skill-finder.ts";
import { admitSource, checkRef, readSource, sourceText } from "./source.ts";
import { dueAt } from "./upstream-state.ts";

/** Services of imports. */
export interface ImportDeps {
  readonly env: Env;
  readonly store: Store;
  readonly host: CodeHost;
  readonly budget: ImportBudget;
  readonly compute: Pick<ComputePool, "run">;
  readonly library: SkillLibrary;
  readonly settings: Pick<Settings, "skillImportSources" | "skillImportCheckHours">;
}

/** A request for a folder of the code host. */
export interface ImportRequest {
  readonly source: string;
  /** Null for the default branch. */
  readonly ref: string | null;
  /** Aborts when the caller has gone. */
  readonly signal?: AbortSignal;
}

/** The outcome of an import. */
export interface Imported {
  readonly row: SkillVersionRow;
  /** True if the newest version has the files of the origin, so that nothing was saved. */
  readonly unchanged: boolean;
  readonly dropped: readonly string[];
}

/** The outcome of an update. */
export interface Updated extends Imported {
  readonly diff: BundleDiff & { readonly compared_with: string | null };
}

/** When a version of a skill may be imported. */
export interface Eligibility {
  readonly first_seen_at: number;
  readonly eligible_at: number;
  readonly eligible: boolean;
}

/** A skill of a repository, and when it may be imported. */
export type BrowsedSkill = Omit<FoundSkill, "tree_hash"> & Eligibility;

/** The origin of an imported skill, as it is now. */
export interface Upstream {
  readonly current: SkillVersionRow;
  readonly live_version: string | null;
  readonly located: Located;
  readonly seen: Eligibility;
  readonly min_age_days: number;
  readonly diff: BundleDiff & { readonly compared_with: string | null };
}

const importMs = 120_000;
const dayMs = 86_400_000;
const noDiff = { files: [], diff_truncated: false };

/** Imports skills from the code host: always as drafts, through the same library as every other version. */
export class SkillImports {
  readonly #deps: ImportDeps;
  /** Runs work with the code host. */
  readonly work: HostWork;

  constructor(deps: ImportDeps) {
    this.#deps = deps;
    this.work = new HostWork(deps.env, deps.budget);
  }

  /** Saves a skill of the code host as a draft. Refuses with too_recent, and with origin_mismatch if the skill is from elsewhere. */
  async import(store: TenantStore, by: Librarian, { source, ref, signal }: ImportRequest): Promise<Imported> {
    const given = readSource(source);
    if (ref !== null) checkRef(ref);
    admitSource(this.#deps.settings, store.tenantId, given);
    return this.work.run(store, boundsOf(signal), async (caller) => {
      const located = await locate(this.#deps, given, ref, caller);
      for (const { name } of await upstreamsOfSource(store, keyOf(located), 5)) {
        const known = await this.#unchanged(store, name, located);
        if (known !== null) return { row: known, unchanged: true, dropped: [] };
      }
      await this.#admitAge(store, located);
      const bundle = await readFolder(this.#deps, located, caller);
      const known = bundle.name === "" ? null : await this.#unchanged(store, bundle.name, located);
      if (known !== null) return { row: known, unchanged: true, dropped: bundle.dropped };
      const latest = bundle.name === "" ? undefined : await this.#latest(store, bundle.name);
      if (latest !== undefined && !isFrom(latest.origin, located)) throw new SvcError("origin_mismatch");
      const row = await this.#save(store, by, located, bundle, latest ?? null);
      return { row, unchanged: false, dropped: bundle.dropped };
    });
  }

  /**
   * Saves the files that the origin of a skill has now as a draft. Refuses with not_imported, and with origin_mismatch if the newest version is not
   * from there.
   */
  async update(
    store: TenantStore,
    by: Librarian,
    name: string,
    { ref, signal }: Omit<ImportRequest, "source">,
  ): Promise<Updated> {
    if (ref !== null) checkRef(ref);
    const { row: upstream, latest } = await this.#imported(store, name);
    if (latest.origin === null) throw new SvcError("origin_mismatch");
    return this.work.run(store, boundsOf(signal), async (caller) => {
      const located = await this.look(store, upstream, ref, caller);
      const none = { ...noDiff, compared_with: latest.version };
      if (latest.origin?.tree_hash === located.treeHash)
        return { row: latest, unchanged: true, dropped: [], diff: none };
      await this.#admitAge(store, located);
      const bundle = await readFolder(this.#deps, located, caller);
      const row = await this.#save(store, by, located, bundle, latest);
      return { row, unchanged: false, dropped: bundle.dropped, diff: await this.#diff(store, latest, bundle) };
    });
  }

  /** Returns the skills of a repository, and when they may be imported. */
  async browse(store: TenantStore, { source, ref, signal }: ImportRequest) {
    const given = readSource(source);
    if (ref !== null) checkRef(ref);
    admitSource(this.#deps.settings, store.tenantId, given);
    return this.work.run(store, boundsOf(signal), async (caller) => {
      const located = await locate(this.#deps, given, ref, caller);
      const { items, found, truncated } = await findSkills(this.#deps, located, caller);
      const minAge = await this.minAgeDays(store);
      await this.#see(
        store,
        located.repository.id,
        items.map(({ tree_hash }) => tree_hash),
      );
      const skills: BrowsedSkill[] = [];
      for (const { tree_hash, ...item } of items)
        skills.push({ ...item, ...(await this.#eligibility(store, located.repository.id, tree_hash, minAge)) });
      return { located, min_age_days: minAge, items: skills, found, truncated };
    });
  }

  /** Returns the present state of the origin of a skill, and its difference from the newest import. */
  async upstream(store: TenantStore, name: string, { ref, signal }: Omit<ImportRequest, "source">): Promise<Upstream> {
    if (ref !== null) checkRef(ref);
    const { row: upstream, skill } = await this.#imported(store, name);
    const current = await skillVersion(store, { library: "", name, version: upstream.version });
    if (current === undefined) throw new SvcError("not_found");
    return this.work.run(store, boundsOf(signal), async (caller) => {
      const located = await this.look(store, upstream, ref, caller);
      const min_age_days = await this.minAgeDays(store);
      const seen = await this.#eligibility(store, located.repository.id, located.treeHash, min_age_days);
      const isSame = located.treeHash === upstream.tree_hash;
      const diff = isSame
        ? { ...noDiff, compared_with: current.version }
        : await this.#diff(store, current, await readFolder(this.#deps, located, caller));
      return { current, live_version: skill.live_version, located, seen, min_age_days, diff };
    });
  }

  /** Looks at the origin of a skill; null for its own ref. Refuses with origin_mismatch if another repository has its name by now. */
  async look(store: TenantStore, upstream: SkillUpstreamRow, ref: string | null, caller: HostCaller): Promise<Located> {
    const { env, settings } = this.#deps;
    const { origin } = upstream;
    const located = await locate(this.#deps, readSource(origin.source), ref ?? origin.ref, caller);
    if (located.repository.id !== origin.repository_id) throw new SvcError("origin_mismatch");
    await this.#see(store, located.repository.id, [located.treeHash]);
    if (ref !== null && located.commit.ref !== origin.ref) return located;
    const now = env.now();
    const found = {
      commit: located.commit.sha,
      tree_hash: located.treeHash,
      checked_at: now,
      due_at: dueAt(settings, now),
    };
    await store.write([lookedOp(store, upstream, found)], requestMs);
    return located;
  }

  /** Returns the days that a version must be known before its import. */
  async minAgeDays(store: TenantStore): Promise<number> {
    return (await this.#deps.library.policy(store)).import_min_age_days;
  }

  async #imported(store: TenantStore, name: string) {
    const skill = await storedSkill(store, "", name);
    if (skill === undefined || skill.is_deleted === 1) throw new SvcError("not_found");
    const [row, latest] = await Promise.all([
      skillUpstream(store, name),
      skillVersion(store, { library: "", name, version: skill.latest_version }),
    ]);
    if (row === undefined) throw new SvcError("not_imported");
    if (latest === undefined) throw new SvcError("not_found");
    return { skill, row, latest };
  }

  /** Returns the newest version of a skill that is not deleted. */
  async #latest(store: TenantStore, name: string): Promise<SkillVersionRow | undefined> {
    const skill = await storedSkill(store, "", name);
    if (skill === undefined || skill.is_deleted === 1) return undefined;
    return skillVersion(store, { library: "", name, version: skill.latest_version });
  }

  /** Returns the newest version if it has the files of the folder. */
  async #unchanged(store: TenantStore, name: string, located: Located): Promise<SkillVersionRow | null> {
    const latest = await this.#latest(store, name);
    const isSame = latest?.origin?.tree_hash === located.treeHash && isFrom(latest.origin, located);
    return isSame ? (latest as SkillVersionRow) : null;
  }

  async #save(
    store: TenantStore,
    by: Librarian,
    located: Located,
    { files }: SentBundle,
    latest: SkillVersionRow | null,
  ): Promise<SkillVersionRow> {
    const { env, library, settings } = this.#deps;
    const origin = originOf(located);
    const now = env.now();
    return library.save(store, "", by, {
      ...{ files, reason: `Imported from ${origin.source} at ${origin.commit.slice(0, 12)}.` },
      ...{
        name: latest?.name ?? null,
        parent: latest?.version ?? null,
        version: null,
        bump: "patch",
        source: "import",
      },
      more: { lineage_import: 1, origin },
      also: ({ name, version }) => [
        importedOp(store, {
          name,
          version,
          source: keyOf(located),
          origin,
          checked_at: now,
          due_at: dueAt(settings, now),
        }),
      ],
    });
  }

  async #diff(store: TenantStore, before: SkillVersionRow, { files: after }: SentBundle) {
    const input = { before: await this.#deps.library.files(store, before), after };
    const diff = await importWork(this.#deps.compute, "diff", input).catch((error: unknown) => {
      throw new SvcError("deadline_exceeded", {}, { cause: error });
    });
    return { ...diff, compared_with: before.version };
  }

  async #see(store: TenantStore, repositoryId: number, hashes: readonly string[]): Promise<void> {
    if (hashes.length === 0) return;
    await store.write(seeTreesOps(store, repositoryId, hashes, this.#deps.env.now()), requestMs);
  }

  async #eligibility(store: TenantStore, repositoryId: number, hash: string, minAgeDays: number): Promise<Eligibility> {
    const now = this.#deps.env.now();
    const first_seen_at = (await firstSeen(store, repositoryId, hash)) ?? now;
    const eligible_at = first_seen_at + minAgeDays * dayMs;
    return { first_seen_at, eligible_at, eligible: eligible_at <= now };
  }

  /** Refuses with too_recent if the tenant has known the folder for fewer days than the policy asks. */
  async #admitAge(store: TenantStore, { repository, treeHash }: Located): Promise<void> {
    await this.#see(store, repository.id, [treeHash]);
    const min_age_days = await this.minAgeDays(store);
    const { eligible, first_seen_at, eligible_at } = await this.#eligibility(
      store,
      repository.id,
      treeHash,
      min_age_days,
    );
    if (!eligible) throw new SvcError("too_recent", { detail: { min_age_days, first_seen_at, eligible_at } });
  }
}

/** The text under which a tenant's imports of a folder are found. */
function keyOf({ source }: Located): string {
  return sourceText({ ...source, owner: source.owner.toLowerCase(), repo: source.repo.toLowerCase() });
}

function boundsOf(signal: AbortSignal | undefined) {
  return { deadlineMs: importMs, ...(signal && { signal }) };
}
