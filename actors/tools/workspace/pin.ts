import type { BigIntStats } from "node:fs";
import { lstat, open } from "node:fs/promises";
import { ToolRefusal } from "./refusal.ts";

// Something that is held while it is worked with, by a descriptor or by its path; see directory.ts.

/** What a name stands for, not following it. */
export type EntryKind = "file" | "directory" | "link" | "other";

/** Something that is held: `path` leads to it and `check` refuses when it was swapped. */
export interface Pin {
  readonly path: string;
  readonly stats: BigIntStats;
  check(): Promise<void>;
  close(): Promise<void>;
}

/** Holds what stands under a path; see directory.ts. */
export async function pinByDescriptor(path: string, flags: number): Promise<Pin> {
  const handle = await open(path, flags);
  try {
    const stats = await handle.stat({ bigint: true });
    return { path: `/proc/self/fd/${handle.fd}`, stats, check: async () => {}, close: () => handle.close() };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Remembers what stands under a path in something that is held. */
export async function pinByPath(path: string, parent: Pin, label: string): Promise<Pin> {
  const stats = await lstat(path, { bigint: true });
  return {
    path,
    stats,
    async check() {
      await parent.check();
      const now = await lstat(path, { bigint: true });
      if (!isSame(now, stats)) throw changed(label);
    },
    close: async () => {},
  };
}

/** What was looked at. */
export function kindOf(stats: BigIntStats): EntryKind {
  if (stats.isFile()) return "file";
  if (stats.isDirectory()) return "directory";
  return stats.isSymbolicLink() ? "link" : "other";
}

/** Whether both looks were at the same thing. */
export function isSame(a: BigIntStats, b: BigIntStats): boolean {
  return a.dev === b.dev && a.ino === b.ino && kindOf(a) === kindOf(b);
}

/** Whether it also holds what it held; null stands for nothing. */
export function isUnchanged(now: BigIntStats | null, before: BigIntStats | null): boolean {
  if (now === null || before === null) return now === before;
  return (
    isSame(now, before) && now.size === before.size && now.mtimeNs === before.mtimeNs && now.ctimeNs === before.ctimeNs
  );
}

/** The refusal of what is another than it was. */
export function changed(label: string): ToolRefusal {
  return new ToolRefusal(
    "interrupted",
    `${label}: was changed by somebody else meanwhile; look at it again`,
    "changed",
  );
}
