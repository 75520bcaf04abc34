import { join } from "node:path";
import type { Logger } from "pino";
import { scopesName } from "../../actors/tools/workspace/workspace-path.ts";
import type { Env } from "../../bus/env.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import { identifyFolder } from "../../storage/objects/folder-id.ts";
import type { ObjectStore } from "../../storage/objects/object-store.ts";
import { makeDirectories } from "../../storage/store/directories.ts";
import type { HostRow } from "../../storage/tables/hosts.ts";

/** The ids of the folders or buckets that hosts share; empty for one that is not known or not used. */
export interface SharedPlaces {
  readonly objects: string;
  readonly workspaces: string;
  readonly checkouts: string;
}

/** The file with the id of a folder; no tenant and no checkout has this name. */
const idFile = "+id";

/** Reads the ids. The first process that uses a folder or a bucket gives it its id. */
export async function readSharedPlaces(
  { workspaceRoot, repoCheckoutRoot }: Pick<Settings, "workspaceRoot" | "repoCheckoutRoot">,
  objects: ObjectStore,
  env: Env,
  log: Pick<Logger, "warn">,
): Promise<SharedPlaces> {
  const known = (what: string, id: Promise<string>): Promise<string> =>
    id.catch((error: unknown) => {
      log.warn({ err: error }, `the id of ${what} cannot be read, so it is not compared with that of other hosts`);
      return "";
    });
  return {
    objects: await known("the object store", objects.identify(env.id())),
    workspaces:
      workspaceRoot === null ? "" : await known("the workspaces", folderId(join(workspaceRoot, scopesName), env.id())),
    checkouts:
      repoCheckoutRoot === null
        ? ""
        : await known("the git data of repositories", folderId(repoCheckoutRoot, env.id())),
  };
}

async function folderId(folder: string, fresh: string): Promise<string> {
  makeDirectories(folder);
  return identifyFolder(folder, idFile, fresh, folder);
}

/** Returns why a host must not join others, which use other places; null if it may. */
export function refusalOfPlaces(own: SharedPlaces, others: readonly HostRow[]): string | null {
  const differs = (name: keyof SharedPlaces): boolean =>
    own[name] !== "" &&
    others.some(({ card: { places } }) => (places?.[name] ?? "") !== "" && places?.[name] !== own[name]);
  if (differs("objects"))
    return "the object store is not the one that the other hosts use: give every host the same bucket, or the same shared folder in SVC_OBJECT_STORE_PATH";
  if (differs("workspaces"))
    return "SVC_WORKSPACE_ROOT is not the folder that the other hosts have: share it, or unset it on every host";
  if (differs("checkouts"))
    return "SVC_REPO_CHECKOUT_ROOT is not the folder that the other hosts have: share it, or unset it on every host";
  return null;
}
