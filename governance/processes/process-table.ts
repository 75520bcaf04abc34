import { readdirSync, readFileSync } from "node:fs";

// Reads the processes of the machine from /proc. Elsewhere than on Linux there is none, and every list is empty.

/** Rounds of a search for marked processes: one that forks while it is sought leaves a copy for the next round. */
const roundsMax = 20;

/** A process below another one, whose depth is 0. */
interface Descendant {
  readonly pid: number;
  readonly depth: number;
}

/** Returns a process and all processes below it. */
export function treeOf(root: number): readonly Descendant[] {
  const children = new Map<number, number[]>();
  for (const pid of pids()) {
    const parent = parentOf(pid);
    if (parent === null) continue;
    const known = children.get(parent);
    if (known === undefined) children.set(parent, [pid]);
    else known.push(pid);
  }
  const tree: Descendant[] = [{ pid: root, depth: 0 }];
  for (let at = 0; at < tree.length; at++) {
    const { pid, depth } = tree[at] as Descendant;
    for (const child of children.get(pid) ?? []) tree.push({ pid: child, depth: depth + 1 });
  }
  return tree;
}

/** Ends the processes whose environment has the mark, or one that begins with it and a dot. */
export function killMarked(mark: string, signal: (pid: number, name: "SIGKILL") => void): void {
  for (let round = 0; round < roundsMax; round++) {
    const found = pids().filter((pid) => bears(pid, mark));
    if (found.length === 0) return;
    for (const pid of found) signal(pid, "SIGKILL");
  }
}

function pids(): number[] {
  try {
    return readdirSync("/proc").flatMap((name) => (/^\d+$/.test(name) ? [Number(name)] : []));
  } catch {
    return [];
  }
}

function parentOf(pid: number): number | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The name of the program is between parentheses and may contain any character.
    const [, parent] = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return Number(parent);
  } catch {
    return null;
  }
}

function bears(pid: number, mark: string): boolean {
  try {
    const entry = readFileSync(`/proc/${pid}/environ`, "latin1")
      .split("\0")
      .find((one) => one.startsWith("SVC_JOB="));
    return entry === `SVC_JOB=${mark}` || entry?.startsWith(`SVC_JOB=${mark}.`) === true;
  } catch {
    return false;
  }
}
