import type { Directory } from "./directory.ts";
import { ToolRefusal } from "./refusal.ts";
import type { Survey } from "./survey.ts";
import { depthMax } from "./workspace-path.ts";

/** Names shown to the walker before others have a turn. */
const namesPerTurn = 500;

/** What a walker does with what it meets. `T` is what it carries from a directory into those below. */
export interface Walker<T> {
  /** Names come in their order whatever their case. */
  readonly folded?: boolean;
  /** What to carry into this directory; null to pass it by. */
  enter(name: string, carried: T): T | null;
  /** Answers false to end the walk. `label` is the path in the workspace. */
  file(label: string, name: string, carried: T, directory: Directory): boolean | Promise<boolean>;
}

/**
 * Shows the walker what is below `directory`, in the order of names, each file with the directory that is held for it, as far as
 * the survey goes. Links and special files are passed by, and so is what vanishes or cannot be opened meanwhile. Answers false
 * when the walker or the survey ended it.
 */
export async function walk<T>(directory: Directory, carried: T, walker: Walker<T>, survey: Survey): Promise<boolean> {
  survey.checkSignal();
  // Deeper than this nothing could be named.
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

/** For what may vanish or be forbidden while a walk goes on: nothing of it. */
export function passBy(error: unknown): null {
  if (error instanceof ToolRefusal) return null;
  throw error;
}
