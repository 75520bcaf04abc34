import { spawnSync } from "node:child_process";
import type { TestContext } from "node:test";
import { has } from "./needs.ts";

/** Whether system calls can be traced here; a test that asks is skipped, or in CI fails, where they cannot. */
export function canTrace(t: Pick<TestContext, "skip">): boolean {
  const { status, stderr } = spawnSync("strace", ["-f", "-o", "/dev/null", "true"], { encoding: "utf8" });
  const why = status === null ? "needs strace: apt-get install strace" : `strace may not trace here: ${stderr.trim()}`;
  return has(t, status === 0, why);
}
