import type { HostCaller } from "./code-host.ts";
import { type Folder, type GitEntry, importWork } from "./import-job.ts";
import { filesOf, type Located, type LookDeps } from "./located.ts";
import { sourceText } from "./source.ts";

/** A skill of a repository. */
export interface FoundSkill {
  /** Its name, or that of its folder if SKILL.md cannot be read. */
  readonly name: string;
  readonly description: string;
  /** Its folder in the repository; empty for the root. */
  readonly path: string;
  readonly source: string;
  readonly tree_hash: string;
}

/** The skills of a repository. */
export interface FoundSkills {
  readonly items: readonly FoundSkill[];
  /** Number of skills, also of those that are not listed. */
  readonly found: number;
  readonly truncated: boolean;
}

/** Folders of a repository that hold skills, by the customs of tools. */
const roots = [
  "skills",
  ".claude/skills",
  ".claude/plugins/marketplaces",
  ".agents/skills",
  ".cursor/skills",
  ".gemini/skills",
  ".codex/skills",
  ".vscode/skills",
];
const listedMax = 50;
const headBytesMax = 256 * 1024;

interface Place {
  readonly path: string;
  readonly tree_hash: string;
  /** Its SKILL.md. */
  readonly file: GitEntry;
}

/** Finds the skills below a folder; for the root of a repository, those in the usual folders and at the root itself. */
export async function findSkills(deps: LookDeps, located: Located, caller: HostCaller): Promise<FoundSkills> {
  const { places, isCut } = await placesOf(deps, located, caller);
  const listed = places.slice(0, listedMax);
  const small = listed.map(({ file }) => file).filter(({ size }) => size <= headBytesMax);
  const sent = await filesOf(deps.host, located.repository, small, caller);
  const heads = await importWork(
    deps.compute,
    "heads",
    sent.map(({ bytes }) => bytes),
  ).catch(() => []);
  const headOf = new Map(sent.map(({ sha }, at) => [sha, heads[at]]));
  const items = listed.map(({ path, tree_hash, file }) => {
    const head = headOf.get(file.sha);
    const source = { ...located.source, path: path === "" ? [] : path.split("/") };
    return {
      name: head?.name || (path.split("/").at(-1) || located.source.repo).toWellFormed(),
      description: head?.description ?? "",
      ...{ path: path.toWellFormed(), source: sourceText(source).toWellFormed(), tree_hash },
    };
  });
  return { items, found: places.length, truncated: isCut || places.length > listedMax };
}

async function placesOf({ host }: LookDeps, { repository, source, treeHash }: Located, caller: HostCaller) {
  const folder = (sha: string, isDeep: boolean) => host.folder(repository, sha, isDeep, caller);
  const base = source.path.join("/");
  if (base !== "") {
    const listing = await folder(treeHash, true);
    return { places: skillsIn(listing, base, treeHash), isCut: listing.isCut };
  }
  const top = await folder(treeHash, false);
  const places = skillsIn(top, "", treeHash);
  let isCut = top.isCut;
  // Several roots share their first folder.
  const known = new Map<string, Folder>([["", top]]);
  for (const root of roots) {
    const sha = await hashBelow(root.split("/"), known, (hash) => folder(hash, false));
    if (sha === null) continue;
    const listing = await folder(sha, true);
    isCut ||= listing.isCut;
    places.push(...skillsIn(listing, root, sha));
  }
  return { places, isCut };
}

/** Returns the hash of a folder; null if there is none. */
async function hashBelow(
  segments: readonly string[],
  known: Map<string, Folder>,
  read: (sha: string) => Promise<Folder>,
): Promise<string | null> {
  for (let at = 0; ; at++) {
    const above = known.get(segments.slice(0, at).join("/"));
    const entry = above?.entries.find(({ path }) => path === segments[at]);
    if (entry?.kind !== "folder") return null;
    if (at === segments.length - 1) return entry.sha;
    const key = segments.slice(0, at + 1).join("/");
    if (!known.has(key)) known.set(key, await read(entry.sha));
  }
}

/** Returns the folders with a SKILL.md of a listing that begins at `base`. */
function skillsIn({ entries }: Folder, base: string, baseHash: string): Place[] {
  const hashes = new Map(entries.filter(({ kind }) => kind === "folder").map(({ path, sha }) => [path, sha]));
  return entries.flatMap((file) => {
    if (file.kind !== "file" || !/(?:^|\/)SKILL\.md$/.test(file.path)) return [];
    const inner = file.path.slice(0, -"/SKILL.md".length);
    const tree_hash = inner === "" || file.path === "SKILL.md" ? baseHash : hashes.get(inner);
    if (tree_hash === undefined) return [];
    const path = [base, file.path === "SKILL.md" ? "" : inner].filter((part) => part !== "").join("/");
    return [{ path, tree_hash, file }];
  });
}
