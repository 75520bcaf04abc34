import { readdirSync, readFileSync } from "node:fs";

/** Linux counts processor time for user space in hundredths of a second. */
const tickMs = 10;

/** Processor time that the processes have used, in milliseconds; NaN where there is no /proc. */
export function readCpuMs(pids: readonly number[]): number {
  return sum(pids, (pid) => {
    const fields = fieldsAfterName(pid);
    return (Number(fields[11]) + Number(fields[12])) * tickMs;
  });
}

/** Resident memory of the processes in KiB; NaN where there is no /proc. */
export function readRssKib(pids: readonly number[]): number {
  return sum(pids, (pid) => Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]));
}

/** A process and all that it started, by ids; only the process itself where there is no /proc. */
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

/** The most files that this process may open, undefined where the system does not say. */
export function readOpenFilesMax(): number | undefined {
  try {
    const limit = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
    return limit === undefined ? undefined : Number(limit);
  } catch {
    return undefined;
  }
}

/** A process that ends while /proc is read has no parent any more. */
function parentOf(pid: number): number {
  try {
    return Number(fieldsAfterName(pid)[1]);
  } catch {
    return 0;
  }
}

/** The fields of /proc/<pid>/stat from the state on; the name before them may hold blanks and parentheses. */
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
