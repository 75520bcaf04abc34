import { readdir } from "node:fs/promises";
import type { Git } from "../../governance/repos/git.ts";
import type { CheckoutFolders } from "./folders.ts";

/** Loose objects of a git directory, and KiB of them, above which it is tidied. */
const looseMax = 2_000;
const looseKibMax = 64 * 1_024;
/** The index of a task; as `foldersOf` names it. */
const taskIndex = /^index\.task-/;

/**
 * Deletes the objects of a git directory that nothing needs, and packs the others, if there are many loose ones: each look at the files
 * leaves objects of their present content. No other git may work in the directory.
 */
export async function tidyObjects(git: Git, { gitDir }: Pick<CheckoutFolders, "gitDir">): Promise<void> {
  const place = { gitDir, workTree: null };
  const counted = await git.text(place, ["count-objects"]);
  const [, objects = 0, kib = 0] = /^(\d+) objects, (\d+) kilobytes/.exec(counted) ?? [];
  if (Number(objects) <= looseMax && Number(kib) <= looseKibMax) return;
  // git knows that the refs and its own index need objects, but not that the index of a task does.
  const isTaskOpen = (await readdir(gitDir)).some((name) => taskIndex.test(name));
  if (!isTaskOpen) await git.run(place, ["prune", "--expire=now"]);
  await git.run(place, ["repack", "-d", "-n", "--quiet"]);
}
