import { spawnSync } from "node:child_process";
import type { TestContext } from "node:test";
import { has } from "./needs.ts";

/** True if system calls can be traced here; otherwise the test is skipped, or fails in CI. */
export function canTrace(t: Pick<TestContext, "skip">): boolean {
  const { status, stderr } = spawnSync("strace", ["-f", "-o", "/dev/null", "true"], { encoding: "utf8" });
  const why = status === null ? "needs strace: apt-get install strace" : `strace may not trace here: ${stderr.trim()}`;
  return has(t, status === 0, why);
}

/** The steps of a call: one at its start, and one at its return; null for none. */
interface Reading<Step> {
  made(call: string): Step | null;
  returned(call: string): Step | null;
}

/** The steps of a process in order, from a trace of `strace -f -y`. */
export function readTrace<Step>(text: string, { made, returned }: Reading<Step>): Step[] {
  const steps: (Step | null)[] = [];
  const unfinished = new Map<string, string>();
  for (const line of text.split("\n")) {
    const [, thread = "", call = ""] = /^(\d+) +(.*)$/.exec(line) ?? [];
    const resumed = /^<\.\.\. (\w+) resumed>(.*)$/.exec(call);
    if (!resumed) steps.push(made(call));
    if (call.endsWith("<unfinished ...>")) unfinished.set(thread, call);
    else steps.push(returned(resumed ? (unfinished.get(thread) ?? "") + resumed[2] : call));
  }
  return steps.filter((step) => step !== null);
}
