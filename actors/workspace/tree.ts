import type { WorkspaceEntry, WorkspaceTree } from "../../bus/protocol/workspace.ts";
import { Survey } from "../tools/workspace/survey.ts";
import { walk } from "../tools/workspace/walk.ts";
import { inDirectory } from "../tools/workspace/workspace.ts";
import { isGitDirectory } from "../tools/workspace/workspace-path.ts";
import type { Place } from "./place.ts";

/** Max characters of all paths in one tree. */
const pathCharsMax = 1_000_000;

/** Returns at most `limit` entries: folders before their content, names in case-insensitive order. */
export async function readTree(place: Place, limit: number): Promise<WorkspaceTree> {
  const { scope, manifest, rootKind } = place;
  const entries: WorkspaceEntry[] = [];
  const survey = new Survey(place);
  let chars = 0;
  let full = false;
  /** Counts an entry; returns false if there is no room for it. */
  const has = (path: string): boolean => {
    chars += path.length;
    full ||= entries.length === limit || chars > pathCharsMax;
    return !full;
  };
  await inDirectory(place, [], false, async (root) => {
    if (root === null) return;
    await walk<string>(
      root,
      "",
      {
        folded: true,
        enter(name, above) {
          const path = above + name;
          if (isGitDirectory(name) || !has(path)) return null;
          entries.push({ path, type: "dir" });
          return `${path}/`;
        },
        async file(path, name, _above, directory) {
          // A git worktree has a file of this name.
          if (isGitDirectory(name)) return true;
          const stats = await directory.look(name);
          if (!stats?.isFile()) return true;
          if (!has(path)) return false;
          entries.push({ path, type: "file", bytes: Number(stats.size) });
          return true;
        },
      },
      survey,
    );
  });
  return {
    root_kind: rootKind,
    scope: rootKind === "checkout" ? null : scope,
    manifest,
    entries,
    truncated: full || survey.skipped("").length > 0,
  };
}
