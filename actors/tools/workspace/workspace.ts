import { realpath } from "node:fs/promises";
import type { ToolContext } from "../tool.ts";
import { type Directory, openRoot } from "./directory.ts";
import { explainFileError, ToolRefusal } from "./refusal.ts";
import { checkoutNames, encodeName, scopesName } from "./workspace-path.ts";

// Locations of workspaces by scope:
//   scope deployment   {root}, for the tenants that the operator lists; .svc-scopes is hidden there
//   scope tenant       {root}/.svc-scopes/{tenant}/shared
//   scope thread       {root}/.svc-scopes/{tenant}/threads/{suffix}
//   a thread with a repository, in any scope: {root}/.svc-scopes/{tenant}/repos/{suffix}
// The first write creates the directories of a scope; until then a workspace is empty.

/** Identifies a workspace: tenant, thread, scope and root. */
export type Workspace = Pick<ToolContext, "tenantId" | "threadSuffix" | "workspaceScope" | "workspace">;

/**
 * Runs `work` in the pinned directory at `names` below the workspace root. `create` creates missing directories. `work` receives
 * null only for the root of a workspace without any file.
 */
export async function inDirectory<T>(
  place: Workspace,
  names: readonly string[],
  create: boolean,
  work: (directory: Directory | null) => Promise<T>,
): Promise<T> {
  const root = await openScope(place, create);
  if (root === null) {
    if (names.length > 0) throw new ToolRefusal("not_found", `${names.join("/")}: no such file or directory`);
    return await work(null);
  }
  let directory = root;
  try {
    for (const name of names) {
      const next = create ? await directory.makeDirectory(name) : await directory.directory(name);
      await directory.close();
      directory = next;
    }
    return await work(directory);
  } finally {
    await directory.close();
  }
}

/** Runs `work` in the parent directory of a file, with the file's name. `create` creates missing directories. */
export async function inParent<T>(
  place: Workspace,
  names: readonly string[],
  create: boolean,
  work: (directory: Directory, name: string) => Promise<T>,
): Promise<T> {
  const name = names[names.length - 1] as string;
  return await inDirectory(place, names.slice(0, -1), create, async (directory) => {
    if (directory === null) throw new ToolRefusal("not_found", `${name}: no such file or directory`);
    return await work(directory, name);
  });
}

/** Runs `work` in the parent directory of the workspace root, with the root's name; does nothing if the parent is missing. */
export async function inParentOfRoot(
  place: Workspace,
  work: (directory: Directory, name: string) => Promise<void>,
): Promise<void> {
  const names = await workspaceNames(place);
  const directory = await openBelow(place.workspace.root, names.slice(0, -1), false);
  if (directory === null) return;
  try {
    await work(directory, names.at(-1) as string);
  } finally {
    await directory.close();
  }
}

/** A folder of a workspace in which commands run. */
export interface CommandFolder {
  /** Absolute path of the configured root. */
  readonly root: string;
  /** The workspace, from the root; empty for the root itself. */
  readonly below: string;
  /** The folder, from the workspace; empty for the workspace itself. */
  readonly cwd: string;
  /** Names in the workspace that do not belong to it. */
  readonly hidden: readonly string[];
}

/** Returns the folder at `names` for a command, and creates the workspace if it is missing. Refuses a folder that does not exist. */
export async function folderOfCommands(place: Workspace, names: readonly string[]): Promise<CommandFolder> {
  const below = await workspaceNames(place);
  await inDirectory(place, [], true, async () => {});
  await inDirectory(place, names, false, async () => {});
  return {
    root: await realpath(place.workspace.root as string),
    below: below.join("/"),
    cwd: names.join("/"),
    hidden: below.length === 0 ? [scopesName] : [],
  };
}

/**
 * Runs `work` after all earlier work on the same file of the same workspace, so that concurrent calls do not overwrite each
 * other. This covers one thread of the process; `Directory.replace` detects other writers.
 */
export async function alone<T>(place: Workspace, names: readonly string[], work: () => Promise<T>): Promise<T> {
  const key = JSON.stringify([place.workspace.root, ...(await workspaceNames(place)), ...names]).toLowerCase();
  const before = lastWork.get(key) ?? Promise.resolve();
  const done = before.then(work);
  const settled = done.then(ignore, ignore);
  lastWork.set(key, settled);
  try {
    return await done;
  } finally {
    if (lastWork.get(key) === settled) lastWork.delete(key);
  }
}

const lastWork = new Map<string, Promise<void>>();

function ignore(): void {}

/** Opens the workspace root; null if it is missing and `create` is false. */
async function openScope(place: Workspace, create: boolean): Promise<Directory | null> {
  return openBelow(place.workspace.root, await workspaceNames(place), create);
}

/** Opens a directory below the configured root; null if it is missing and `create` is false. */
async function openBelow(root: string | null, names: readonly string[], create: boolean): Promise<Directory | null> {
  let directory = await openConfiguredRoot(root);
  try {
    for (const name of names) {
      if (!create && (await directory.look(name)) === null) {
        await directory.close();
        return null;
      }
      const next = create ? await directory.makeDirectory(name, 0o700, "") : await directory.directory(name, "");
      await directory.close();
      directory = next;
    }
    return directory;
  } catch (error) {
    await directory.close();
    throw error;
  }
}

async function openConfiguredRoot(root: string | null): Promise<Directory> {
  if (root === null) throw new ToolRefusal("transport_unavailable", "workspace_root is not configured");
  try {
    return await openRoot(root);
  } catch (error) {
    const refusal = explainFileError(error, "workspace_root");
    // Any failure here is a problem of the installation, not of the call.
    throw refusal instanceof ToolRefusal ? new ToolRefusal("transport_unavailable", refusal.message) : refusal;
  }
}

/** Returns the names from the configured root to the workspace root. Refuses calls without a workspace. */
async function workspaceNames(place: Workspace): Promise<string[]> {
  const { threadSuffix, tenantId, workspace } = place;
  if (workspace.root === null || threadSuffix === null) return scopeNames(place);
  const checkout = await workspace.checkout();
  if (checkout === null) return scopeNames(place);
  if (!checkout.isReady)
    throw new ToolRefusal("transport_unavailable", "the repository of this conversation is not ready", "scope");
  return checkoutNames(tenantId, threadSuffix);
}

/** Returns those of the scope. */
function scopeNames(place: Workspace): string[] {
  if (place.workspace.root === null) throw new ToolRefusal("transport_unavailable", "workspace_root is not configured");
  switch (place.workspaceScope) {
    case "deployment":
      if (!place.workspace.deploymentTenants.includes(place.tenantId))
        throw new ToolRefusal(
          "permission_denied",
          "workspace scope deployment is not allowed for this tenant",
          "scope",
        );
      return [];
    case "tenant":
      return [scopesName, encodeName(place.tenantId), "shared"];
    case "thread":
      if (place.threadSuffix === null)
        throw new ToolRefusal("permission_denied", "workspace scope thread needs a thread_id: this turn has no thread");
      return [scopesName, encodeName(place.tenantId), "threads", encodeName(place.threadSuffix)];
  }
}
