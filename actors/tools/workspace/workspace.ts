import type { ToolContext } from "../tool.ts";
import { type Directory, openRoot } from "./directory.ts";
import { explainFileError, ToolRefusal } from "./refusal.ts";
import { encodeName, scopesName } from "./workspace-path.ts";

// Where the files of a call are:
//   scope deployment   {root}, for the tenants that the operator has listed; .svc-scopes is not seen there
//   scope tenant       {root}/.svc-scopes/{tenant}/shared
//   scope thread       {root}/.svc-scopes/{tenant}/threads/{suffix}
// Directories of scopes are made by the first write; until then a workspace is empty.

/** Whose workspace, of which scope, and below what root. */
export type Workspace = Pick<ToolContext, "tenantId" | "threadSuffix" | "workspaceScope" | "workspace">;

/**
 * Runs `work` in the directory that `names` lead to from the root of the call's workspace, holding it meanwhile. With `create`,
 * missing directories are made. `work` gets null only for the root of a workspace that nothing was written to yet.
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

/** Runs `work` in the directory of a file, given the file's name in it. With `create`, missing directories are made. */
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

/** Runs `work` in the directory that the root of the call's workspace is in, given its name there; not when nothing is there. */
export async function besideRoot(
  place: Workspace,
  work: (directory: Directory, name: string) => Promise<void>,
): Promise<void> {
  const names = scopeNames(place);
  const directory = await openBelow(place.workspace.root, names.slice(0, -1), false);
  if (directory === null) return;
  try {
    await work(directory, names.at(-1) as string);
  } finally {
    await directory.close();
  }
}

/**
 * Runs `work` when all earlier work on the same file of the same workspace is done, so that calls side by side do not undo one
 * another. Holds within one thread of the process; `Directory.replace` notices the others.
 */
export async function alone<T>(place: Workspace, names: readonly string[], work: () => Promise<T>): Promise<T> {
  const key = JSON.stringify([place.workspace.root, ...scopeNames(place), ...names]).toLowerCase();
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

/** The root of the call's workspace; null when nothing was written to it yet and `create` is false. */
function openScope(place: Workspace, create: boolean): Promise<Directory | null> {
  return openBelow(place.workspace.root, scopeNames(place), create);
}

/** What is below the configured root; null when it is not there and `create` is false. */
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
    // Whatever it is, it is the installation that is not ready, and not the call that is wrong.
    throw refusal instanceof ToolRefusal ? new ToolRefusal("transport_unavailable", refusal.message) : refusal;
  }
}

/** The way from the configured root to the root of the call's workspace. Refuses calls that have none. */
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
