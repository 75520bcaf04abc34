import { join } from "node:path";
import { SvcError } from "../../bus/errors.ts";
import type { SkillRules } from "../../manifests/sections/skills.ts";
import type { SkillFiles } from "../../storage/files/skill-files.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import {
  type LiveSkillRow,
  liveSkill,
  liveSkillMarks,
  liveSkills,
  type MarkedSkillRow,
  skillCatalog,
  skillVersion,
} from "../../storage/tables/skills.ts";
import { isBinaryPath } from "./binary-files.ts";
import { bundleBytesMax, readSkill, skillFile } from "./bundle.ts";
import { type CatalogSkill, makeCatalog, type SkillCatalog } from "./catalog.ts";
import { Faults } from "./faults.ts";
import { readPlain } from "./folder.ts";
import type { HostSkillMap, HostSkills } from "./host-skills.ts";

/** Max catalogs that are kept for one agent, and live lists for a thread of the process. */
const keptMax = 500;
/** Max changed skills that are read one by one; after more changes, the library is read again. */
const changedMax = 64;
/** Max characters of the bodies that are kept. */
const bodiesCharsMax = 8 * 1024 * 1024;

interface KeptCatalog {
  readonly revision: number;
  readonly host: HostSkillMap;
  readonly catalog: SkillCatalog;
}

/** The published skills of a library at a revision. */
interface KeptLive {
  readonly revision: number;
  readonly rows: Promise<readonly MarkedSkillRow[]>;
}

/**
 * The catalogs of the agents of one thread of the process. A catalog is made once for each change of its parts, and a change of a library
 * reads the changed skills only.
 */
export class SkillCatalogs {
  readonly #host: HostSkills;
  readonly #files: SkillFiles;
  readonly #catalogs = new WeakMap<SkillRules, Map<string, KeptCatalog>>();
  /** The published skills of libraries, by tenant and library. */
  readonly #live = new Map<string, KeptLive>();
  readonly #bodies = new Map<string, string>();
  #bodiesChars = 0;

  constructor(host: HostSkills, files: SkillFiles) {
    this.#host = host;
    this.#files = files;
  }

  /** Returns the catalog of an agent for a caller with this library; `personal` is null for none. */
  async of(store: TenantStore, rules: SkillRules, personal: string | null): Promise<SkillCatalog> {
    const [{ revision }, host] = await Promise.all([skillCatalog(store), this.#host.all()]);
    const library = rules.personal === "off" ? null : personal;
    const key = JSON.stringify([store.tenantId, library]);
    const kept = () => {
      const found = this.#catalogs.get(rules)?.get(key);
      return found?.revision === revision && found.host === host ? found.catalog : null;
    };
    const known = kept();
    if (known !== null) return known;
    const [org, pinned, own] = await Promise.all([
      this.#liveOf(store, "", revision),
      pinnedOf(store, rules),
      library === null ? null : this.#liveOf(store, library, revision).then((live) => ({ library, live })),
    ]);
    // Another run of the agent may have made it in the meantime.
    const made = kept();
    if (made !== null) return made;
    const catalog = makeCatalog(rules, { host, org, pinned, personal: own });
    const all = this.#catalogs.get(rules) ?? new Map<string, KeptCatalog>();
    if (all.size >= keptMax) all.clear();
    all.set(key, { revision, host, catalog });
    this.#catalogs.set(rules, all);
    return catalog;
  }

  /** Returns the instructions of a skill. Refuses with version_corrupt. */
  async body(tenantId: string, skill: CatalogSkill): Promise<string> {
    const file = skill.files.find(({ path }) => path === skillFile);
    const key = JSON.stringify([tenantId, skill.at, file?.sha256]);
    const kept = this.#bodies.get(key);
    if (kept !== undefined) return kept;
    const text = (await this.file(tenantId, skill, skillFile))?.content ?? "";
    const { head, body } = readSkill(text, new Faults());
    if (head === null) throw new SvcError("version_corrupt");
    this.#bodiesChars += body.length;
    if (this.#bodiesChars > bodiesCharsMax) {
      this.#bodies.clear();
      this.#bodiesChars = body.length;
    }
    this.#bodies.set(key, body);
    return body;
  }

  /** Returns a file of a skill: a text, or base64 of a binary file. Null for an unknown path. Refuses with version_corrupt. */
  async file(
    tenantId: string,
    { at, files }: CatalogSkill,
    path: string,
  ): Promise<{ readonly content: string; readonly isBinary: boolean } | null> {
    const file = files.find((one) => one.path === path);
    if (file === undefined) return null;
    const bytes = at.kind === "version" ? await this.#files.read(tenantId, at.id, file) : readOf(join(at.folder, path));
    const isBinary = isBinaryPath(path);
    return { content: bytes.toString(isBinary ? "base64" : "utf8"), isBinary };
  }

  #liveOf(store: TenantStore, library: string, revision: number): Promise<readonly MarkedSkillRow[]> {
    if (revision === 0) return Promise.resolve([]);
    const key = JSON.stringify([store.tenantId, library]);
    const kept = this.#live.get(key);
    if (kept?.revision === revision) return kept.rows;
    const rows = kept === undefined ? liveSkills(store, library) : renewed(store, library, kept.rows);
    const live = { revision, rows };
    if (this.#live.size >= keptMax) this.#live.clear();
    this.#live.set(key, live);
    rows.catch(() => {
      if (this.#live.get(key) === live) this.#live.delete(key);
    });
    return rows;
  }
}

/** Returns the published skills of a library after a change: the same rows, except for those of changed skills. */
async function renewed(
  store: TenantStore,
  library: string,
  kept: Promise<readonly MarkedSkillRow[]>,
): Promise<readonly MarkedSkillRow[]> {
  const marks = await liveSkillMarks(store, library);
  const before = new Map((await kept).map((row) => [row.name, row]));
  const changed = marks.filter(({ name, updated_at }) => before.get(name)?.updated_at !== updated_at);
  if (changed.length > changedMax) return liveSkills(store, library);
  const fresh = await Promise.all(changed.map(({ name }) => liveSkill(store, { library, name })));
  // A skill that was changed again since its mark was read is changed at the next revision, too.
  for (const [at, { name }] of changed.entries()) {
    const row = fresh[at];
    if (row === undefined) before.delete(name);
    else before.set(name, row);
  }
  return marks.flatMap(({ name }) => before.get(name) ?? []);
}

function readOf(path: string): Buffer {
  try {
    return readPlain(path, bundleBytesMax);
  } catch (cause) {
    // The operator has changed the folder since it was read.
    throw new SvcError("version_corrupt", {}, { cause });
  }
}

/** Returns the pinned versions of a manifest that are or were published, and not deleted. */
async function pinnedOf(store: TenantStore, { declared }: SkillRules): Promise<ReadonlyMap<string, LiveSkillRow>> {
  const pinned = new Map<string, LiveSkillRow>();
  for (const [name, { version }] of declared) {
    if (version === null) continue;
    const row = await skillVersion(store, { library: "", name, version });
    if (row !== undefined && row.published_at !== null) pinned.set(name, row);
  }
  return pinned;
}
