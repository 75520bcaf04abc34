import { splitThreadId } from "../../bus/address.ts";
import { breathe, type Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { AskFile } from "../../bus/protocol/workspace.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { Directory } from "../tools/workspace/directory.ts";
import { ToolRefusal } from "../tools/workspace/refusal.ts";
import { besideRoot, inParent } from "../tools/workspace/workspace.ts";
import { depthMax } from "../tools/workspace/workspace-path.ts";
import { aloneWith, changeable, moveTo } from "./files.ts";
import type { Place, WorkspaceDeps } from "./place.ts";

/** Names that are removed before others have a turn. */
const namesPerTurn = 100;

/**
 * Deletes a folder with everything in it, what belongs to git too; links themselves and never what they lead to. What is deleted until
 * a crash or a failure is gone.
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
    // Also of what could be deleted in part only.
    if (complete || counts.files > 0) place.audit("workspace_delete", { path, folder: true, files: counts.files });
  }
  return { files: counts.files };
}

/**
 * Deletes the files that are the conversation's alone, whatever its manifest says of it now, with the folder that they are in: before a
 * conversation is deleted, so that what a failure leaves is deleted when that is asked for again. Refuses with workspace_io_error.
 */
export async function eraseFiles({ key, deps, env }: ActorContext<WorkspaceDeps>): Promise<Record<string, never>> {
  const { workspaceRoot: root, workspaceDeploymentTenants: deploymentTenants } = deps.settings;
  if (root === null) return {};
  const { tenantId, suffix: threadSuffix } = splitThreadId(key);
  const place = { tenantId, threadSuffix, workspaceScope: "thread", workspace: { root, deploymentTenants } } as const;
  try {
    await deps.workspaceSemaphores.run(tenantId, () =>
      besideRoot(place, async (parent, name) => {
        const aside = asideOf(name);
        await eraseFolder(parent, aside, env);
        const stats = await parent.look(name);
        if (stats === null) return;
        await (await parent.directory(name, "")).close();
        // Out of the way of who writes there by its path: what is being filled is never empty.
        if (!(await parent.move(name, stats, parent, aside))) throw new ToolRefusal("interrupted", "it is in use");
        try {
          await eraseFolder(parent, aside, env);
        } catch (error) {
          // What is left stays in sight, as the conversation does.
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

/** Where a conversation's folder is while it is being deleted: no other conversation's has a dot in its name. */
function asideOf(name: string): string {
  return `${name}${asideEnd}`;
}

/** Whether a folder among those of conversations is one that is being deleted, or was. */
export function isAside(name: string): boolean {
  return name.endsWith(asideEnd);
}

const asideEnd = ".erased";

/** How often it is gone through a folder in which somebody makes something meanwhile, and how much of that is deleted. */
const roundsMax = 20;
const madeMax = 5_000;

/** Deletes a folder whoever changes what is in it, if there is one. */
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

/** Whether something is not there any more, or is another than it was. */
function isOthersDoing(error: unknown): boolean {
  return error instanceof ToolRefusal && (error.ground === "changed" || error.code === "not_found");
}

/** Moves a folder to a path that nothing has. */
export async function renameFolder(place: Place, { path, to_path }: AskFile & { readonly to_path: string }) {
  const from = changeable(path);
  const to = changeable(to_path);
  // What is in it cannot be where it goes.
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

/** Refuses with not_found, not_a_folder, and invalid_path for a link. */
async function folderStats(directory: Directory, name: string) {
  const stats = await directory.look(name);
  if (stats === null) throw new SvcError("not_found");
  if (stats.isSymbolicLink()) throw new SvcError("invalid_path");
  if (!stats.isDirectory()) throw new SvcError("not_a_folder");
  return stats;
}

/** Refuses a folder at a depth where what is in it would lie deeper than any path leads: nobody could read it. */
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
 * Deletes what is in a folder. Each level of it holds a descriptor: what lies deeper than any path leads, as somebody else has made it, is
 * moved up before. With `others` it passes by what somebody else changes meanwhile, and refuses when that makes more than it should: a folder
 * that is filled as fast as it is emptied has no end.
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

/** What others have made in a folder since it is being emptied, epoch milliseconds. */
interface OthersDoing {
  readonly since: number;
  made: number;
}

/** What was deleted so far. */
interface Counts {
  names: number;
  files: number;
}
