import type { Env } from "../../bus/env.ts";
import type { RepeatedTask } from "../../bus/task-declaration.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import { type Directory, type EntryName, openRoot } from "../tools/workspace/directory.ts";
import { sweepDrafts } from "../tools/workspace/drafts.ts";
import { eraseFolder } from "../tools/workspace/erase-folder.ts";
import { passBy } from "../tools/workspace/walk.ts";
import { scopesName } from "../tools/workspace/workspace-path.ts";
import { isAside } from "./folders.ts";

/**
 * Finishes interrupted deletions of thread folders below the configured root, if the folder has not changed since `before`
 * (epoch milliseconds). Returns their number. Folders that cannot be deleted stay for the next time.
 */
export async function eraseLeftFolders(root: string, before: number, env: Env): Promise<number> {
  let erased = 0;

  async function eraseIn(threads: Directory): Promise<void> {
    const left: string[] = [];
    await threads.each(async (name) => {
      if (typeof name === "string" && isAside(name)) left.push(name);
    });
    for (const name of left) {
      const stats = await threads.look(name).catch(passBy);
      // After the clock was set back, times may be in the future.
      const isLeft = stats?.isDirectory() && (Number(stats.ctimeMs) < before || Number(stats.ctimeMs) > env.now());
      if (!isLeft) continue;
      await eraseFolder(threads, name, env).then(() => erased++, passBy);
    }
  }

  // A missing root has no folders; tools report the missing root.
  const top = await openRoot(root).catch(() => null);
  if (top === null) return 0;
  await inFolder(top, async (directory) => {
    await below(directory, scopesName, (scopes) =>
      scopes.each((tenant) => below(scopes, tenant, (own) => below(own, "threads", eraseIn))),
    );
  });
  return erased;
}

async function below(directory: Directory, name: EntryName, work: (found: Directory) => Promise<void>): Promise<void> {
  const found = await directory.directory(name, "").catch(passBy);
  if (found !== null) await inFolder(found, work);
}

async function inFolder(directory: Directory, work: (found: Directory) => Promise<void>): Promise<void> {
  try {
    await work(directory);
  } catch (error) {
    passBy(error);
  } finally {
    await directory.close();
  }
}

const sweepMs = 3_600_000;

/** Deletes what interrupted deletions and writes have left in workspaces. */
export const leftFoldersTask: RepeatedTask<{
  readonly settings: Pick<Settings, "workspaceRoot">;
  readonly env: Env;
  /** The start of the process, in epoch milliseconds. */
  readonly startedAt: number;
}> = {
  name: "workspace_drafts",
  of: "scheduler",
  async run({ settings: { workspaceRoot }, env, startedAt }, { isFirst }) {
    if (workspaceRoot === null) return sweepMs;
    // Folders from before the start of the process were left by an earlier one.
    await eraseLeftFolders(workspaceRoot, isFirst ? startedAt : env.now() - sweepMs, env);
    await sweepDrafts(workspaceRoot, env);
    return sweepMs;
  },
};
