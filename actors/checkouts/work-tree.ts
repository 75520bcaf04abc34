import { copyFile, rm } from "node:fs/promises";
import { type Git, GitError, type GitOptions } from "../../governance/repos/git.ts";
import type { CheckoutFolders } from "./folders.ts";

// The files of a checkout as git sees them. Nothing here lets git look into a folder that has a `.git` of its own: git would run there with
// the configuration that is found there, which a command of the agent may have written. So entries of other repositories in the index are
// marked as not in the work tree before git reads the work tree, and new ones are taken out of the index.

export const gitlinkMode = "160000";
export const linkMode = "120000";
export const executableMode = "100755";
const excludedMax = 20;

/** An entry of the index. */
export interface IndexEntry {
  readonly mode: string;
  readonly path: string;
}

/** Writes the files of the work tree into the object store, and returns the id of their tree. Ignored files are left out. */
export async function treeOf(git: Git, place: CheckoutFolders, options: GitOptions = {}): Promise<string> {
  const known = await gitlinks(git, place, options);
  if (known.length > 0)
    await git.run(place, ["update-index", "-z", "--skip-worktree", "--stdin"], { ...options, input: lines(known) });
  await addAll(git, place, options);
  const before = new Set(known);
  const added = (await gitlinks(git, place, options)).filter((path) => !before.has(path));
  if (added.length > 0)
    await git.run(place, ["update-index", "-z", "--force-remove", "--stdin"], { ...options, input: lines(added) });
  return git.text(place, ["write-tree"], options);
}

/** The files of a work tree compared with HEAD. */
export interface WorkTreeState {
  /** Entries of HEAD, by path. */
  readonly entries: readonly IndexEntry[];
  /** Letters of the changes since HEAD, by path: A, D, M or T. */
  readonly changes: ReadonlyMap<string, string>;
}

/** Compares the files of the work tree with HEAD. Writes neither objects nor the index. Ignored files are left out. */
export async function stateOf(git: Git, place: CheckoutFolders): Promise<WorkTreeState> {
  // A copy keeps what the index knows about the times of files, so that git reads few of them.
  const copy = { ...place, index: `${place.index}.view` };
  await copyFile(place.index, copy.index);
  try {
    await git.run(copy, ["read-tree", "-m", "-i", "HEAD"]);
    const entries = await indexEntries(git, copy);
    const links = entries.filter(({ mode }) => mode === gitlinkMode).map(({ path }) => path);
    if (links.length > 0)
      await git.run(copy, ["update-index", "-z", "--skip-worktree", "--stdin"], { input: lines(links) });
    const status = ["--porcelain=v2", "-z", "--untracked-files=all", "--ignore-submodules=all", "--no-renames"];
    const changes = new Map<string, string>();
    for (const line of await git.list(copy, ["status", ...status])) {
      if (line.startsWith("? ")) {
        // A folder is another repository.
        if (!line.endsWith("/")) changes.set(line.slice(2), "A");
      } else if (line.startsWith("1 ")) changes.set(line.split(" ").slice(8).join(" "), line[3] as string);
    }
    return { entries, changes };
  } finally {
    await rm(copy.index, { force: true });
  }
}

/** Adds all files to the index. A folder that a command has made a repository without a commit is left out. */
async function addAll(git: Git, place: CheckoutFolders, options: GitOptions): Promise<void> {
  const excluded: string[] = [];
  for (;;) {
    const paths = excluded.map((path) => `:(exclude,literal)${path}`);
    try {
      await git.run(place, ["add", "--all", "--", ".", ...paths], options);
      return;
    } catch (error) {
      const words = error instanceof GitError && error.reason === "exit" ? error.message : "";
      const [, path] = /error: '(.+)\/' does not have a commit checked out/.exec(words) ?? [];
      if (path === undefined || excluded.includes(path) || excluded.length === excludedMax) throw error;
      excluded.push(path);
    }
  }
}

/** Returns the entries of the index, by path. */
async function indexEntries(git: Git, place: CheckoutFolders, options: GitOptions = {}): Promise<IndexEntry[]> {
  return (await git.list(place, ["ls-files", "--stage", "-z"], options)).map((line) => ({
    mode: line.slice(0, line.indexOf(" ")),
    path: line.slice(line.indexOf("\t") + 1),
  }));
}

/** The change of one path between two trees. */
export interface TreeChange {
  /** A, D, M or T. */
  readonly letter: string;
  /** Mode and blob in the second tree. */
  readonly mode: string;
  readonly blob: string;
}

/** Returns the paths in which two trees differ. */
export async function changesBetween(
  git: Git,
  place: CheckoutFolders,
  from: string,
  to: string,
): Promise<ReadonlyMap<string, TreeChange>> {
  const parts = await git.list(place, ["diff-tree", "-r", "-z", "--raw", "--no-renames", from, to]);
  const changes = new Map<string, TreeChange>();
  for (let at = 0; at + 1 < parts.length; at += 2) {
    const [, mode = "", , blob = "", letter = ""] = (parts[at] as string).split(" ");
    changes.set(parts[at + 1] as string, { letter, mode, blob });
  }
  return changes;
}

const diffOptions = ["--no-ext-diff", "--no-textconv", "--no-renames", "--no-color", "--ignore-submodules=all"];
const statCharsMax = 8_000;
const diffLinesMax = 200;
const diffCharsMax = 40_000;
const diffBytesMax = 8 * 1024 * 1024;

/** Returns how many lines each file between two trees has gained and lost. */
export async function diffStat(git: Git, place: CheckoutFolders, from: string, to: string): Promise<string> {
  const stat = await git.text(place, ["diff", "--stat=100", "--stat-count=100", ...diffOptions, from, to], {
    outputBytesMax: diffBytesMax,
  });
  return cut(visible(stat), statCharsMax);
}

/** Returns the first lines of the difference between two trees. */
export async function diffHead(git: Git, place: CheckoutFolders, from: string, to: string): Promise<string> {
  let text: string;
  try {
    text = await git.text(place, ["diff", ...diffOptions, from, to], { outputBytesMax: diffBytesMax });
  } catch {
    return "(the difference is too long to show)";
  }
  const all = text.split("\n");
  const shown = cut(visible(all.slice(0, diffLinesMax).join("\n")), diffCharsMax);
  return all.length > diffLinesMax ? `${shown}\n(${all.length - diffLinesMax} more lines)` : shown;
}

/** Characters that change the order in which other text is shown, or are not shown. A person who approves a change must see them. */
const unseen = /[\p{Cf}\p{Zl}\p{Zp}]|(?![\n\r\t])\p{Cc}/gu;

function visible(text: string): string {
  return text.replace(unseen, (sign) => `\\u{${sign.codePointAt(0)?.toString(16)}}`);
}

function cut(text: string, charsMax: number): string {
  return text.length <= charsMax ? text : `${text.slice(0, charsMax).toWellFormed()}\n(cut)`;
}

async function gitlinks(git: Git, place: CheckoutFolders, options: GitOptions): Promise<string[]> {
  return (await indexEntries(git, place, options)).filter(({ mode }) => mode === gitlinkMode).map(({ path }) => path);
}

function lines(paths: readonly string[]): string {
  return paths.map((path) => `${path}\0`).join("");
}
