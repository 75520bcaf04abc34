import type { Env } from "../../../bus/env.ts";
import type { Directory } from "./directory.ts";
import { breathe } from "./file-content.ts";
import { checkSignal, ToolRefusal } from "./refusal.ts";
import { depthMax } from "./workspace-path.ts";

/** What one walk may look at, however large the workspace is. */
const entriesMax = 20_000;
/** Names shown to the walker before others have a turn. */
const entriesPerTurn = 500;

/** How far a walk has come. */
export interface WalkState {
  /** Names looked at so far. */
  entries: number;
  /** True when the walk ended at a bound before it had seen everything. */
  cut: boolean;
}

/** A walk that has not begun. */
export function newWalk(): WalkState {
  return { entries: 0, cut: false };
}

/** What a walker does with what it meets. `T` is what it carries from a directory into those below. */
export interface Walker<T> {
  /** What to carry into this directory; null to pass it by. */
  enter(name: string, carried: T): T | null;
  /** Answers false to end the walk. `label` is the path in the workspace. */
  file(label: string, name: string, carried: T, directory: Directory): boolean | Promise<boolean>;
}

/**
 * Shows the walker what is below `directory`, in the order of names, each file with the directory that is held for it. Links and
 * special files are passed by, and so is what vanishes or cannot be opened meanwhile. Answers false when the walker ended it.
 */
export async function walk<T>(
  directory: Directory,
  carried: T,
  walker: Walker<T>,
  run: { readonly env: Env; readonly signal: AbortSignal },
  state: WalkState,
): Promise<boolean> {
  checkSignal(run.signal);
  // Deeper than this nothing could be named.
  const depth = directory.label === "" ? 0 : directory.label.split("/").length;
  if (state.entries >= entriesMax || depth >= depthMax) {
    state.cut = true;
    return true;
  }
  const { entries, more } = await directory.list(entriesMax - state.entries);
  state.entries += entries.length;
  if (more) state.cut = true;
  for (const [at, { name, kind }] of entries.entries()) {
    if (at % entriesPerTurn === entriesPerTurn - 1) await breathe(run.env);
    if (kind === "file") {
      if (!(await walker.file(directory.labelOf(name), name, carried, directory))) return false;
    } else if (kind === "directory") {
      const next = walker.enter(name, carried);
      if (next === null) continue;
      const below = await directory.directory(name).catch(passBy);
      if (below === null) continue;
      try {
        if (!(await walk(below, next, walker, run, state))) return false;
      } catch (error) {
        checkSignal(run.signal);
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
