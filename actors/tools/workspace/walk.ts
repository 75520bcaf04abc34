import type { Directory } from "./directory.ts";
import { ToolRefusal } from "./refusal.ts";
import type { Survey } from "./survey.ts";
import { depthMax } from "./workspace-path.ts";

/** Names passed to the walker between two yields to the event loop. */
const namesPerTurn = 500;

/** Receives the entries of a walk. `T` is the state passed from a directory to its subdirectories. */
export interface Walker<T> {
  /** If true, names come in case-insensitive order. */
  readonly folded?: boolean;
  /** Returns the state for this directory; null to skip it. */
  enter(name: string, carried: T): T | null;
  /** Returns false to end the walk. `label` is the path in the workspace. */
  file(label: string, name: string, carried: T, directory: Directory): boolean | Promise<boolean>;
}

/**
 * Walks the tree below `directory` in the order of names, within the limits of the survey. Each file comes with its pinned
 * directory. Skips links, special files, and entries that vanish or cannot be opened. Returns false if the walker or the survey
 * ended the walk.
 */
export async function walk<T>(directory: Directory, carried: T, walker: Walker<T>, survey: Survey): Promise<boolean> {
  survey.checkSignal();
  // Paths deeper than this cannot be expressed.
  const depth = directory.label === "" ? 0 : directory.label.split("/").length;
  if (survey.namesLeft <= 0 || depth >= depthMax) {
    survey.cut();
    return true;
  }
  const { entries, more } = await directory.list(survey.namesLeft, survey, walker.folded);
  survey.names += entries.length;
  if (more) survey.cut();
  for (const [at, { name, kind }] of entries.entries()) {
    if (survey.isOver()) return false;
    if (at % namesPerTurn === namesPerTurn - 1) await survey.breathe();
    if (kind === "file") {
      if (!(await walker.file(directory.labelOf(name), name, carried, directory))) return false;
    } else if (kind === "directory") {
      const next = walker.enter(name, carried);
      if (next === null) continue;
      const below = await directory.directory(name).catch(passBy);
      if (below === null) continue;
      try {
        if (!(await walk(below, next, walker, survey))) return false;
      } catch (error) {
        survey.checkSignal();
        passBy(error);
      } finally {
        await below.close();
      }
    }
  }
  return true;
}

/** Skips an entry that vanished or is forbidden during a walk. */
export function passBy(error: unknown): null {
  if (error instanceof ToolRefusal) return null;
  throw error;
}
