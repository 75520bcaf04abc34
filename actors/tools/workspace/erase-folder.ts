import { breathe, type Env } from "../../../bus/env.ts";
import { type Directory, type EntryName, openRoot } from "./directory.ts";
import { ToolRefusal } from "./refusal.ts";
import { depthMax } from "./workspace-path.ts";

/** Names removed between two yields to the event loop. */
const namesPerTurn = 100;
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
      await emptyFolder(folder, { names: 0, files: 0 }, { env }, others);
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

/** Deletes the folder at `names` below the configured root, if it exists. No link is followed. */
export async function eraseBelow(root: string, names: readonly string[], env: Env): Promise<void> {
  let directory = await openRoot(root);
  try {
    for (const name of names.slice(0, -1)) {
      if ((await directory.look(name)) === null) return;
      const next = await directory.directory(name, "");
      await directory.close();
      directory = next;
    }
    await eraseFolder(directory, names.at(-1) as string, env);
  } finally {
    await directory.close();
  }
}

/**
 * Deletes the content of a folder. Each level holds a descriptor, so entries below the max depth are moved up first. With
 * `others`, concurrent changes are tolerated up to a number of new entries, because a folder that is filled as fast as it is
 * emptied would never end.
 */
export async function emptyFolder(
  folder: Directory,
  counts: Counts,
  place: { readonly env: Env },
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

  async function removeFrom(directory: Directory, name: EntryName, depth: number): Promise<void> {
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
