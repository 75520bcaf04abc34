import { SvcError } from "../../../bus/errors.ts";
import type { SkillOrigin } from "../../../storage/tables/skills.ts";
import type { ComputePool } from "../../compute/compute-pool.ts";
import type { Settings } from "../../settings/settings.ts";
import { isBinaryPath } from "../binary-files.ts";
import { bundleBytesMax, bundleFilesMax, skillFile } from "../bundle.ts";
import { pathFault } from "../bundle-paths.ts";
import type { CodeHost, Commit, HostCaller, Repository } from "./code-host.ts";
import { type GitEntry, importWork, type SentBundle, type SentFile } from "./import-job.ts";
import { inLanes } from "./lanes.ts";
import { admitSource, type SkillSource, sourceText } from "./source.ts";

/** A folder of a repository at one commit. */
export interface Located {
  readonly repository: Repository;
  /** As the code host spells it. */
  readonly source: SkillSource;
  readonly commit: Commit;
  /** The hash of the folder, which changes with its contents only. */
  readonly treeHash: string;
}

/** Services that look at a code host. */
export interface LookDeps {
  readonly host: CodeHost;
  readonly compute: Pick<ComputePool, "run">;
  readonly settings: Pick<Settings, "skillImportSources">;
}

const fileBytesMax = 5 * 1024 * 1024;
/** Requests of one import that are open at once. */
const atOnceMax = 8;
const droppedMax = 200;
const droppedCharsMax = 512;

/** Finds a folder at the commit that a ref names now. Refuses with source_not_allowed, source_not_found and as `CodeHost.commit` does. */
export async function locate(
  { host, settings }: LookDeps,
  given: SkillSource,
  ref: string | null,
  caller: HostCaller,
): Promise<Located> {
  const repository = await host.repository(given, caller);
  // The repository may have another name by now. A token may see more than a tenant should.
  const how = admitSource(settings, caller.tenantId, repository);
  if (repository.isPrivate && how !== "named") throw new SvcError("source_not_found");
  const commit = await host.commit(repository, ref, caller);
  let treeHash = commit.treeSha;
  for (const segment of given.path) {
    const { entries, isCut } = await host.folder(repository, treeHash, false, caller);
    const entry = entries.find(({ path }) => path === segment);
    if (entry?.kind !== "folder")
      throw new SvcError(entry === undefined && isCut ? "source_too_large" : "source_not_found");
    treeHash = entry.sha;
  }
  const { owner, repo } = repository;
  return { repository, source: { owner, repo, path: given.path }, commit, treeHash };
}

/** Returns the origin of a version that is made of the folder. */
export function originOf({ repository, source, commit, treeHash }: Located): SkillOrigin {
  return {
    ...{ source: sourceText(source), ref: commit.ref, commit: commit.sha, tree_hash: treeHash },
    ...{ license: repository.license, committed_at: commit.committedAt, repository_id: repository.id },
  };
}

/** True if a version with this origin is from the folder, also after its repository was renamed. */
export function isFrom(origin: SkillOrigin | null, { repository, source }: Located): boolean {
  if (origin === null || origin.repository_id !== repository.id) return false;
  return origin.source.split("/").slice(2).join("/") === source.path.join("/");
}

/**
 * Reads the files of a folder. Links, files of other repositories, and files that a bundle cannot have are dropped. Refuses with
 * source_too_large, source_not_found without SKILL.md, and upstream_error.
 */
export async function readFolder(
  { host, compute }: LookDeps,
  { repository, treeHash }: Pick<Located, "repository" | "treeHash">,
  caller: HostCaller,
): Promise<SentBundle> {
  const { entries, isCut } = await host.folder(repository, treeHash, true, caller);
  const files = entries.filter(({ kind }) => kind !== "folder");
  const wanted = files.filter(isWanted);
  if (!wanted.some(({ path }) => path === skillFile))
    throw new SvcError(isCut ? "source_too_large" : "source_not_found");
  const bytes = wanted.reduce((sum, { size }) => sum + size, 0);
  const isLarge = wanted.some(({ size }) => size > fileBytesMax) || bytes > bundleBytesMax;
  if (isCut || isLarge || wanted.length > bundleFilesMax) throw new SvcError("source_too_large");
  const sent = await filesOf(host, repository, wanted, caller);
  const bundle = await importWork(compute, "bundle", sent).catch((error: unknown) => {
    throw new SvcError("deadline_exceeded", {}, { cause: error });
  });
  if (bundle === null) throw new SvcError("upstream_error");
  const left = files.filter((file) => !isWanted(file)).map(({ path }) => path);
  return { ...bundle, dropped: [...left, ...bundle.dropped].toSorted().slice(0, droppedMax).map(shownPath) };
}

/** Reads some files of a repository, a few at once. */
export async function filesOf(
  host: CodeHost,
  repository: Repository,
  wanted: readonly GitEntry[],
  caller: HostCaller,
): Promise<SentFile[]> {
  const stopped = new AbortController();
  const own = { ...caller, signal: AbortSignal.any([caller.signal, stopped.signal]) };
  const sent: SentFile[] = [];
  await inLanes(
    wanted,
    atOnceMax,
    async ({ path, sha, size }) =>
      void sent.push({ path, sha, bytes: await host.file(repository, { sha, size }, own) }),
    () => stopped.abort(),
  );
  return sent;
}

function isWanted({ kind, path }: GitEntry): boolean {
  if (kind !== "file" || pathFault(path) !== null) return false;
  return !isBinaryPath(path) || path.startsWith("assets/");
}

/** Returns a path that shows its invisible characters, and those that turn the text. */
function shownPath(path: string): string {
  const shown = path
    .toWellFormed()
    .replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, (one) => `\\u{${one.codePointAt(0)?.toString(16)}}`);
  return shown.slice(0, droppedCharsMax);
}
