import { splitThreadId } from "../../bus/address.ts";
import { breathe, type Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { AskFile } from "../../bus/protocol/workspace.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { Directory } from "../tools/workspace/directory.ts";
import { ToolRefusal } from "../tools/workspace/refusal.ts";
import { inParent, inParentOfRoot } from "../tools/workspace/workspace.ts";
import { depthMax } from "../tools/workspace/workspace-path.ts";
import { aloneWith, changeable, moveTo } from "./files.ts";
import type { Place, WorkspaceDeps } from "./place.ts";

/** Names removed between two yields to the event loop. */
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
          await empty(folder, counts, place);
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
  const place = { tenantId, threadSuffix, workspaceScope: "thread", workspace: { root, deploymentTenants } } as const;
  try {
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

/** Max passes over a folder that changes during its deletion, and max new entries. */
const roundsMax = 20;
const madeMax = 5_000;

/** Deletes a folder, if it exists, despite concurrent changes inside it. */
export async function eraseFolder(parent: Directory, name: string, env: Env): Promise<void> {
  const others = { since: env.now(), made: 0 };
  for (let round = 1; ; round++) {
    const stats = await parent.look(name);
    if (stats === null) return;
    const folder = await parent.directory(name, "");
    try {
      await empty(folder, { names: 0, files: 0 }, { env }, others);
    } finally {
      await folder.close();
    }
    try {
      return await parent.remove(name, stats, true);
    } catch (error) {
      if (round === roundsMax || !isOthersDoing(error)) throw error;
    }
  }
}

/** True if an entry has vanished or was replaced. */
function isOthersDoing(error: unknown): boolean {
  return error instanceof ToolRefusal && (error.ground === "changed" || error.code === "not_found");
}

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
  name: string,
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

/**
 * Deletes the content of a folder. Each level holds a descriptor, so entries below the max depth are moved up first. With
 * `others`, concurrent changes are tolerated up to a number of new entries, because a folder that is filled as fast as it is
 * emptied would never end.
 */
async function empty(
  folder: Directory,
  counts: Counts,
  place: Pick<Place, "env">,
  others: OthersDoing | null = null,
): Promise<void> {
  let raised: number;

  async function emptyBelow(directory: Directory, depth: number): Promise<void> {
    await directory.each(async (name) => {
      if (++counts.names % namesPerTurn === 0) await breathe(place.env);
      await removeFrom(directory, name, depth).catch((error) => {
        if (others === null || !isOthersDoing(error)) throw error;
      });
    });
  }

  async function removeFrom(directory: Directory, name: string, depth: number): Promise<void> {
    const stats = await directory.look(name);
    if (stats === null) return;
    if (
      others !== null &&
      (stats.isDirectory() ? stats.birthtimeMs : stats.ctimeMs) > others.since &&
      ++others.made > madeMax
    )
      throw new ToolRefusal("interrupted", "it is in use");
    if (stats.isDirectory() && depth === depthMax) {
      if (await directory.move(name, stats, folder, place.env.id())) raised++;
      return;
    }
    if (stats.isDirectory()) {
      const below = await directory.directory(name);
      try {
        await emptyBelow(below, depth + 1);
      } finally {
        await below.close();
      }
    } else counts.files++;
    await directory.remove(name, stats, false);
  }

  do {
    raised = 0;
    await emptyBelow(folder, 1);
  } while (raised > 0);
}

/** New entries of other writers since a time in epoch milliseconds. */
interface OthersDoing {
  readonly since: number;
  made: number;
}

/** Entries deleted so far. */
interface Counts {
  names: number;
  files: number;
}
