import { readdirSync, readFileSync } from "node:fs";

/** Milliseconds of a clock tick: Linux reports CPU times to user space in hundredths of a second. */
const tickMs = 10;

/** CPU time of the processes in milliseconds; NaN without /proc. */
export function readCpuMs(pids: readonly number[]): number {
  return sum(pids, (pid) => {
    const fields = fieldsAfterName(pid);
    return (Number(fields[11]) + Number(fields[12])) * tickMs;
  });
}

/** Resident memory of the processes in KiB; NaN without /proc. */
export function readRssKib(pids: readonly number[]): number {
  return sum(pids, (pid) => Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]));
}

/** Ids of a process and all its descendants; only its own id without /proc. */
export function listProcessTree(root: number): number[] {
  const parents = new Map<number, number>();
  try {
    for (const name of readdirSync("/proc")) {
      const pid = Number(name);
      if (Number.isInteger(pid)) parents.set(pid, parentOf(pid));
    }
  } catch {
    return [root];
  }
  const tree = [root];
  for (const pid of tree) for (const [child, parent] of parents) if (parent === pid) tree.push(child);
  return tree;
}

/** Max open files of this process; undefined if the system does not report it. */
export function readOpenFilesMax(): number | undefined {
  try {
    const limit = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
    return limit === undefined ? undefined : Number(limit);
  } catch {
    return undefined;
  }
}

/** The parent's id; 0 for a process that ended while /proc was read. */
function parentOf(pid: number): number {
  try {
    return Number(fieldsAfterName(pid)[1]);
  } catch {
    return 0;
  }
}

/** The fields of /proc/<pid>/stat from the state on; the name before them may contain blanks and parentheses. */
function fieldsAfterName(pid: number): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}

function sum(pids: readonly number[], read: (pid: number) => number): number {
  try {
    return pids.reduce((total, pid) => total + read(pid), 0);
  } catch {
    return Number.NaN;
  }
}
