import { spawnSync } from "node:child_process";
import type { TestContext } from "node:test";
import { has } from "./needs.ts";

let works: boolean | null = null;

/** True if bubblewrap makes sandboxes on this machine; otherwise the test is skipped, or fails in CI. */
export function hasBubblewrap(t: Pick<TestContext, "skip">): boolean {
  works ??= spawnSync("bwrap", ["--unshare-pid", "--ro-bind", "/", "/", "true"]).status === 0;
  return has(t, works, "bubblewrap makes no sandbox here");
}
