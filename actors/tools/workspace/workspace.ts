import type { ToolContext } from "../tool.ts";
import { type Directory, openRoot } from "./directory.ts";
import { explainFileError, ToolRefusal } from "./refusal.ts";
import { encodeName, scopesName } from "./workspace-path.ts";

// Where the files of a call are:
//   scope deployment   {root}, for the tenants that the operator has listed; .svc-scopes is not seen there
//   scope tenant       {root}/.svc-scopes/{tenant}/shared
//   scope thread       {root}/.svc-scopes/{tenant}/threads/{suffix}
// Directories of scopes are made by the first write; until then a workspace is empty.

/**
 * Runs `work` in the directory that `names` lead to from the root of the call's workspace, holding it meanwhile. With `create`,
 * missing directories are made. `work` gets null only for the root of a workspace that nothing was written to yet.
 */
export async function inDirectory<T>(
  context: ToolContext,
  names: readonly string[],
  create: boolean,
  work: (directory: Directory | null) => Promise<T>,
): Promise<T> {
  const root = await openScope(context, create);
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
  context: ToolContext,
  names: readonly string[],
  create: boolean,
  work: (directory: Directory, name: string) => Promise<T>,
): Promise<T> {
  const name = names[names.length - 1] as string;
  return await inDirectory(context, names.slice(0, -1), create, async (directory) => {
    if (directory === null) throw new ToolRefusal("not_found", `${name}: no such file or directory`);
    return await work(directory, name);
  });
}

/**
 * Runs `work` when all earlier work on the same file of the same workspace is done, so that calls side by side do not undo one
 * another. Holds within one thread of the process; `Directory.replace` notices the others.
 */
export async function alone<T>(context: ToolContext, names: readonly string[], work: () => Promise<T>): Promise<T> {
  const place = JSON.stringify([context.workspace.root, ...scopeNames(context), ...names]).toLowerCase();
  const before = lastWork.get(place) ?? Promise.resolve();
  const done = before.then(work);
  const settled = done.then(ignore, ignore);
  lastWork.set(place, settled);
  try {
    return await done;
  } finally {
    if (lastWork.get(place) === settled) lastWork.delete(place);
  }
}

const lastWork = new Map<string, Promise<void>>();

function ignore(): void {}

/** The root of the call's workspace; null when nothing was written to it yet and `create` is false. */
async function openScope(context: ToolContext, create: boolean): Promise<Directory | null> {
  const names = scopeNames(context);
  let directory = await openConfiguredRoot(context.workspace.root);
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
function scopeNames(context: ToolContext): string[] {
  if (context.workspace.root === null)
    throw new ToolRefusal("transport_unavailable", "workspace_root is not configured");
  switch (context.workspaceScope) {
    case "deployment":
      if (!context.workspace.deploymentTenants.includes(context.tenantId))
        throw new ToolRefusal("permission_denied", "workspace scope deployment is not allowed for this tenant");
      return [];
    case "tenant":
      return [scopesName, encodeName(context.tenantId), "shared"];
    case "thread":
      if (context.threadSuffix === null)
        throw new ToolRefusal("permission_denied", "workspace scope thread needs a thread_id: this turn has no thread");
      return [scopesName, encodeName(context.tenantId), "threads", encodeName(context.threadSuffix)];
  }
}
