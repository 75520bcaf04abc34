import { splitThreadId } from "../../bus/address.ts";
import { breathe } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { AskFile } from "../../bus/protocol/workspace.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { Directory, EntryName } from "../tools/workspace/directory.ts";
import { emptyFolder, eraseFolder } from "../tools/workspace/erase-folder.ts";
import { ToolRefusal } from "../tools/workspace/refusal.ts";
import { inParent, inParentOfRoot } from "../tools/workspace/workspace.ts";
import { depthMax } from "../tools/workspace/workspace-path.ts";
import { aloneWith, changeable, moveTo } from "./files.ts";
import type { Place, WorkspaceDeps } from "./place.ts";

/** Names read between two yields to the event loop. */
const namesPerTurn = 100;

/**
 * Deletes a folder with everything in it, including git's files; links are removed, not followed. After a crash or failure,
 * files deleted so far stay deleted.
 */
export async function deleteFolder(place: Place, { path }: AskFile): Promise<{ files: number }> {
  const names = changeable(path);
  const counts = { names: 0, files: 0 };
  let complete = false;
  try {
    await aloneWith(place, [names], () =>
      inParent(place, names, false, async (parent, name) => {
        const stats = await folderStats(parent, name);
        const folder = await parent.directory(name);
        try {
          await emptyFolder(folder, counts, place);
        } finally {
          await folder.close();
        }
        await parent.remove(name, stats, true);
        complete = true;
      }),
    );
  } finally {
    // Also audit a partial deletion.
    if (complete || counts.files > 0) place.audit("workspace_delete", { path, folder: true, files: counts.files });
  }
  return { files: counts.files };
}

/**
 * Deletes the thread's own workspace folder, whatever its manifest says now. Called before the thread is deleted, so that a
 * repeated request deletes what a failure left. Refuses with workspace_io_error.
 */
export async function eraseFiles({ key, deps, env }: ActorContext<WorkspaceDeps>): Promise<Record<string, never>> {
  const { workspaceRoot: root, workspaceDeploymentTenants: deploymentTenants } = deps.settings;
  if (root === null) return {};
  const { tenantId, suffix: threadSuffix } = splitThreadId(key);
  const workspace = { root, deploymentTenants, checkout: async () => null };
  const place = { tenantId, threadSuffix, workspaceScope: "thread", workspace } as const;
  try {
    await deps.checkouts.remove({ tenantId, thread: threadSuffix });
    await deps.workspaceSemaphores.run(tenantId, () =>
      inParentOfRoot(place, async (parent, name) => {
        const aside = asideOf(name);
        await eraseFolder(parent, aside, env);
        const stats = await parent.look(name);
        if (stats === null) return;
        await (await parent.directory(name, "")).close();
        // Rename the folder first, because files that are written by path could keep it from becoming empty.
        if (!(await parent.move(name, stats, parent, aside))) throw new ToolRefusal("interrupted", "it is in use");
        try {
          await eraseFolder(parent, aside, env);
        } catch (error) {
          // Rename the rest back, because the thread still exists too.
          await parent.move(aside, stats, parent, name).catch(() => {});
          throw error;
        }
      }),
    );
  } catch (error) {
    if (!(error instanceof ToolRefusal)) throw error;
    deps.log.warn({ thread_id: key, err: error }, "the files of a thread could not be deleted");
    throw new SvcError("workspace_io_error");
  }
  return {};
}

/** Returns the name of a thread's folder during its deletion; encoded names contain no dot, so it is unique. */
function asideOf(name: string): string {
  return `${name}${asideEnd}`;
}

/** True for a folder whose deletion has begun. */
export function isAside(name: string): boolean {
  return name.endsWith(asideEnd);
}

const asideEnd = ".erased";

/** Moves a folder to a free path. */
export async function renameFolder(place: Place, { path, to_path }: AskFile & { readonly to_path: string }) {
  const from = changeable(path);
  const to = changeable(to_path);
  // A folder cannot move into itself.
  if (to.length > from.length && from.every((name, at) => name === to[at])) throw new SvcError("invalid_path");
  await aloneWith(place, [from, to], () =>
    inParent(place, from, false, async (directory, name) => {
      const stats = await folderStats(directory, name);
      if (to.length > from.length) await refuseTooDeep(directory, name, to.length, { names: 0 }, place);
      await moveTo(place, { directory, name, stats }, to);
    }),
  );
  place.audit("workspace_rename", { path, to_path, folder: true });
  return {};
}

/** Refuses with not_found, not_a_folder, or invalid_path for a link. */
async function folderStats(directory: Directory, name: string) {
  const stats = await directory.look(name);
  if (stats === null) throw new SvcError("not_found");
  if (stats.isSymbolicLink()) throw new SvcError("invalid_path");
  if (!stats.isDirectory()) throw new SvcError("not_a_folder");
  return stats;
}

/** Refuses a move after which paths inside the folder would be too deep to express. */
async function refuseTooDeep(
  parent: Directory,
  name: EntryName,
  depth: number,
  counts: { names: number },
  place: Place,
): Promise<void> {
  const folder = await parent.directory(name);
  try {
    await folder.each(async (below, isFile) => {
      if (depth === depthMax) throw new ToolRefusal("invalid_arguments", `${folder.labelOf(below)}: would be too deep`);
      if (++counts.names % namesPerTurn === 0) await breathe(place.env);
      if (!isFile && (await folder.look(below))?.isDirectory())
        await refuseTooDeep(folder, below, depth + 1, counts, place);
    });
  } finally {
    await folder.close();
  }
}
