import { mkdir, rename, writeFile } from "node:fs/promises";
import { posix } from "node:path";
import { type Git, GitError, type GitRemote } from "../../governance/repos/git.ts";
import { asideOf, type CheckoutFolders, makeParent } from "./folders.ts";
import { linkMode } from "./work-tree.ts";

/** Max files of a repository, and links among them. */
const filesMax = 100_000;
const linksMax = 10_000;
/** The ref of the commit that was cloned. */
export const baseRef = "refs/svc/base";
/** Attributes by which content would change, or programs run, between the repository and the files. */
const attributes = "* -filter -ident -working-tree-encoding !diff !merge\n";

/** Why a repository is not cloned, in words for people. */
export class CloneRefusal extends Error {
  override readonly name = "CloneRefusal";
}

/** What to clone. */
export interface CloneOrder {
  readonly url: string;
  readonly branch: string;
  readonly remote: GitRemote;
  /** Max bytes of all files. */
  readonly bytesMax: number;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Clones one branch without its history. The folders are made aside and then renamed, so that a checkout is whole or missing. Throws
 * CloneRefusal and GitError.
 */
export async function cloneInto(git: Git, folders: CheckoutFolders, order: CloneOrder): Promise<void> {
  const { url, branch, remote, timeoutMs, signal } = order;
  const aside = asideOf(folders);
  await makeParent(aside.gitDir);
  await makeParent(aside.workTree);
  await mkdir(aside.gitDir, { mode: 0o700 });
  const bare = { gitDir: aside.gitDir, workTree: null };
  await git.run(bare, ["init", "--quiet", "--bare", "--template="]);
  await mkdir(`${aside.gitDir}/info`, { recursive: true });
  await writeFile(`${aside.gitDir}/info/attributes`, attributes);
  const ref = `refs/heads/${branch}`;
  await git.run(
    bare,
    [
      ...["fetch", "--quiet", "--no-tags", "--depth=1", "--no-write-fetch-head", "--no-recurse-submodules"],
      ...["--", url, `+${ref}:${ref}`],
    ],
    { remote, timeoutMs, signal },
  );
  await checkTree(git, aside, ref, order.bytesMax);
  await mkdir(aside.workTree, { mode: 0o700 });
  await git.run(aside, ["read-tree", ref]);
  await git.run(aside, ["checkout-index", "--all", "--force", "--quiet", "--index"], { timeoutMs, signal });
  await git.run(bare, ["symbolic-ref", "HEAD", ref]);
  await git.run(bare, ["update-ref", baseRef, ref]);
  await rename(aside.workTree, folders.workTree);
  await rename(aside.gitDir, folders.gitDir);
}

/** Refuses trees that are too large, and links that lead out of the tree. */
async function checkTree(git: Git, place: CheckoutFolders, ref: string, bytesMax: number): Promise<void> {
  const tooMany = new CloneRefusal(`repository_too_large: it has more than ${filesMax} files`);
  const listed = await git
    .list({ ...place, workTree: null }, ["ls-tree", "-r", "-z", "--long", "--full-tree", ref])
    .catch((error: unknown) => {
      throw error instanceof GitError && error.reason === "output" ? tooMany : error;
    });
  if (listed.length > filesMax) throw tooMany;
  let bytes = 0;
  const links: { readonly path: string; readonly blob: string }[] = [];
  for (const line of listed) {
    const at = line.indexOf("\t");
    const [mode, , blob = "", size = "0"] = line.slice(0, at).split(/ +/);
    bytes += Number(size) || 0;
    if (mode === linkMode) links.push({ path: line.slice(at + 1), blob });
  }
  if (bytes > bytesMax) throw new CloneRefusal("repository_too_large: its files are larger than SVC_REPO_CLONE_MAX_MB");
  if (links.length > linksMax) throw new CloneRefusal(`it has more than ${linksMax} symlinks`);
  for (const { path, target } of await targetsOf(git, place, links))
    if (leadsOut(path, target)) throw new CloneRefusal(`the symlink ${path} leads out of the repository`);
}

/** True if a link leads out of the tree, or into a git directory. */
function leadsOut(path: string, target: string): boolean {
  if (posix.isAbsolute(target) || target.includes("\0") || target.includes("\\")) return true;
  // After a name, `..` would leave the folder to which a link of that name leads.
  if (/(^|\/)(?!\.\.?(\/|$))[^/]+\/(.*\/)?\.\.(\/|$)/.test(target)) return true;
  const names = posix.join(posix.dirname(path), target).split("/");
  return names[0] === ".." || names.some((name) => name.toLowerCase() === ".git");
}

async function targetsOf(git: Git, place: CheckoutFolders, links: readonly { path: string; blob: string }[]) {
  if (links.length === 0) return [];
  const input = links.map(({ blob }) => `${blob}\n`).join("");
  const output = await git.run({ ...place, workTree: null }, ["cat-file", "--batch"], { input });
  let at = 0;
  return links.map(({ path }) => {
    const end = output.indexOf(10, at);
    const size = Number(output.subarray(at, end).toString().split(" ")[2] ?? 0);
    const target = output.subarray(end + 1, end + 1 + size).toString("utf8");
    at = end + 1 + size + 1;
    return { path, target };
  });
}
