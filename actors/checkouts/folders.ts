import { mkdir, readdir, rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { GitPlace } from "../../governance/repos/git.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { CheckoutRow } from "../../storage/tables/repo-checkouts.ts";
import { checkoutNames } from "../tools/workspace/workspace-path.ts";

/** The folders of checkouts, as settings. */
export type CheckoutSettings = Pick<Settings, "workspaceRoot" | "repoCheckoutRoot">;

/** The folders of one checkout. The git directory lies outside of all workspaces, so that no tool writes to it (decision 253). */
export interface CheckoutFolders extends Required<GitPlace> {
  readonly workTree: string;
}

/** Added to the names of folders that are being made. No encoded name has a dot. */
export const asideEnd = ".new";

/** Returns the folders of a checkout; a task's has the git directory of its root. */
export function foldersOf(
  tenantId: string,
  row: Pick<CheckoutRow, "thread" | "checkout_id">,
  root: Pick<CheckoutRow, "thread" | "checkout_id">,
  { workspaceRoot, repoCheckoutRoot }: CheckoutSettings,
): CheckoutFolders {
  const gitDir = join(resolve(repoCheckoutRoot as string), root.checkout_id);
  const isRoot = row.thread === root.thread;
  return {
    gitDir,
    index: join(gitDir, isRoot ? "index" : `index.${row.thread}`),
    workTree: join(resolve(workspaceRoot as string), ...checkoutNames(tenantId, row.thread)),
  };
}

/** Returns the same folders under the names that they have while they are made. */
export function asideOf({ gitDir, workTree }: CheckoutFolders): CheckoutFolders {
  const aside = gitDir + asideEnd;
  return { gitDir: aside, index: join(aside, "index"), workTree: workTree + asideEnd };
}

/** Makes the folder above a path. */
export async function makeParent(path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
}

/** Deletes the locks in a git directory that no git uses. A git that was killed leaves its own, and the next one would refuse to work. */
export async function eraseLocks(gitDir: string): Promise<void> {
  const top = await readdir(gitDir).catch(() => []);
  const refs = await readdir(join(gitDir, "refs"), { recursive: true }).catch(() => []);
  for (const name of [...top, ...refs.map((ref) => join("refs", ref))])
    if (name.endsWith(".lock")) await rm(join(gitDir, name), { force: true });
}
