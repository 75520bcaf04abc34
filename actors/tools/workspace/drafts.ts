import type { Env } from "../../../bus/env.ts";
import { type Directory, openRoot } from "./directory.ts";
import { passBy } from "./walk.ts";
import { depthMax, isGitDirectory } from "./workspace-path.ts";

/** Older drafts were left by a process or thread that has died. */
const draftLifeMs = 3_600_000;
/**
 * Names checked between two pauses, and the length of a pause as a multiple of the time before it, so that other work is not
 * delayed.
 */
const namesPerStep = 256;
const pausePerStep = 20;
/** Directory levels of scopes above a workspace. */
const scopeDepth = 4;

/**
 * Removes the drafts of interrupted writes from all workspaces under the configured root. It uses about a twentieth of one
 * thread's time, whatever the number of files.
 */
export async function sweepDrafts(root: string, env: Env): Promise<void> {
  const before = env.now() - draftLifeMs;
  let names = 0;
  let stepAt = env.monotonic();

  async function pace(): Promise<void> {
    names++;
    if (names % namesPerStep !== 0) return;
    const pauseMs = pausePerStep * (env.monotonic() - stepAt);
    await new Promise<void>((resolve) => env.timer(pauseMs, resolve));
    stepAt = env.monotonic();
  }

  async function sweep(directory: Directory, depth: number): Promise<void> {
    await directory.sweep(before, async (name, isDirectory) => {
      await pace();
      if (!isDirectory || isGitDirectory(name) || depth === depthMax + scopeDepth) return;
      const below = await directory.directory(name).catch(passBy);
      if (below === null) return;
      try {
        await sweep(below, depth + 1);
      } catch (error) {
        passBy(error);
      } finally {
        await below.close();
      }
    });
  }

  // A missing root has no drafts; tools report the missing root.
  const directory = await openRoot(root).catch(() => null);
  if (directory === null) return;
  try {
    await sweep(directory, 0);
  } catch (error) {
    passBy(error);
  } finally {
    await directory.close();
  }
}
