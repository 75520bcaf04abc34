import { ToolRefusal } from "../tools/workspace/refusal.ts";
import { inParent } from "../tools/workspace/workspace.ts";
import type { CheckoutKey, Checkouts, OpenCheckout } from "./checkouts.ts";
import { changesBetween, executableMode, gitlinkMode, linkMode, type TreeChange } from "./work-tree.ts";

/** Why no file was written: a file or folder outside of git that a new file would replace, or a name that is not UTF-8. */
export interface Obstacle {
  readonly path: string;
  readonly why: "taken" | "not_utf8";
}

/** Names are read as UTF-8. Bytes that are none become this character, and the file would be written under another name. */
const notUtf8 = "\ufffd";

/**
 * Writes the differences between two trees into the files of a thread, whose tree is `from`. Follows no link. With an obstacle no file is
 * written, and a later call can write them.
 */
export async function writeChanges(
  { git, deps }: Checkouts,
  { tenantId, thread }: CheckoutKey,
  { folders }: OpenCheckout,
  from: string,
  to: string,
): Promise<Obstacle | null> {
  const { env, settings } = deps;
  const workspace = { root: settings.workspaceRoot, deploymentTenants: [], checkout: async () => ({ isReady: true }) };
  const place = { tenantId, threadSuffix: thread, workspaceScope: "thread", workspace } as const;
  const changes = await changesBetween(git, folders, from, to);

  /** Deletes a file, and the folders above it that become empty, as git does. */
  async function remove(names: readonly string[]): Promise<void> {
    const isEmpty = await inParent(place, names, false, async (directory, name) => {
      const stats = await directory.look(name);
      if (stats !== null && !stats.isDirectory()) await directory.remove(name, stats, true);
      const { entries, more } = await directory.list(1);
      return entries.length === 0 && !more;
    }).catch(unlessMissing);
    if (isEmpty === true) await removeFolder(names.slice(0, -1));
  }

  async function removeFolder(names: readonly string[]): Promise<void> {
    if (names.length === 0) return;
    const isEmpty = await inParent(place, names, false, async (directory, name) => {
      const stats = await directory.look(name);
      if (stats?.isDirectory()) await directory.remove(name, stats, true);
      const { entries, more } = await directory.list(1);
      return entries.length === 0 && !more;
    }).catch(() => false);
    if (isEmpty) await removeFolder(names.slice(0, -1));
  }

  /** True if the path has an entry that git does not know, or a folder, or lies below something that is no folder. */
  async function isTaken(names: readonly string[], { letter }: TreeChange): Promise<boolean> {
    try {
      const stats = await inParent(place, names, false, (directory, name) => directory.look(name));
      return stats !== null && (letter === "A" || stats.isDirectory());
    } catch (error) {
      if (error instanceof ToolRefusal) return error.code !== "not_found";
      throw error;
    }
  }

  async function write(names: readonly string[], { mode, blob }: TreeChange): Promise<void> {
    const content = await git.run({ ...folders, workTree: null }, ["cat-file", "blob", blob]);
    await inParent(place, names, true, async (directory, name) => {
      const stats = await directory.look(name);
      if (mode === linkMode) await directory.replaceByLink(name, content.toString("utf8"), stats, env.id());
      else await directory.replace(name, content, stats, env.id(), mode === executableMode);
    });
  }

  const strange = [...changes.keys()].find((path) => path.includes(notUtf8));
  if (strange !== undefined) return { path: strange, why: "not_utf8" };
  for (const [path, { letter }] of changes) if (letter === "D") await remove(path.split("/"));
  const written = [...changes].filter(([, { letter, mode }]) => letter !== "D" && mode !== gitlinkMode);
  for (const [path, change] of written) if (await isTaken(path.split("/"), change)) return { path, why: "taken" };
  for (const [path, change] of written) await write(path.split("/"), change);
  return null;
}

/** Ignores that a file or a folder above it is missing. */
function unlessMissing(error: unknown): null {
  if (error instanceof ToolRefusal && error.code === "not_found") return null;
  throw error;
}
