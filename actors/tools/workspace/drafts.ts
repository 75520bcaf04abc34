import type { Env } from "../../../bus/env.ts";
import { type Directory, openRoot } from "./directory.ts";
import { passBy } from "./walk.ts";
import { depthMax, isGitDirectory } from "./workspace-path.ts";

/** Drafts older than this were left by a process or a thread that is gone. */
const draftLifeMs = 3_600_000;
/** Names looked at before a pause, and how many times as long as they took it is: whoever works meanwhile is not kept waiting. */
const namesPerStep = 256;
const pausePerStep = 20;
/** Directories of scopes above a workspace's own. */
const scopeDepth = 4;

/**
 * Removes the drafts that writes have left behind that were killed, from all workspaces below the configured root. However much
 * is there, it takes a twentieth of the time of one thread, and longer for it.
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

  // Where it is not there, nothing can have been left; tools that use it say so.
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
