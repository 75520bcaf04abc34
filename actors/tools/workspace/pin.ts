import type { BigIntStats } from "node:fs";
import { lstat, open } from "node:fs/promises";
import { ToolRefusal } from "./refusal.ts";

// Pins a file system entry during an operation, by a descriptor or by its path; see directory.ts.

/** The kind of an entry, without following links. */
export type EntryKind = "file" | "directory" | "link" | "other";

/** A pinned entry: `path` leads to it, and `check` refuses if it was replaced. */
export interface Pin {
  readonly path: string;
  readonly stats: BigIntStats;
  check(): Promise<void>;
  close(): Promise<void>;
}

/** Pins the entry at a path by a descriptor; see directory.ts. */
export async function pinByDescriptor(path: string | Buffer, flags: number): Promise<Pin> {
  const handle = await open(path, flags);
  try {
    const stats = await handle.stat({ bigint: true });
    return { path: `/proc/self/fd/${handle.fd}`, stats, check: async () => {}, close: () => handle.close() };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Pins the entry at a path inside a pinned parent, by its stats. */
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

/** Returns the kind of an entry. */
export function kindOf(stats: BigIntStats): EntryKind {
  if (stats.isFile()) return "file";
  if (stats.isDirectory()) return "directory";
  return stats.isSymbolicLink() ? "link" : "other";
}

/** True if both stats are of the same entry. */
export function isSame(a: BigIntStats, b: BigIntStats): boolean {
  return a.dev === b.dev && a.ino === b.ino && kindOf(a) === kindOf(b);
}

/** True if the entry also has the same content; null means no entry. */
export function isUnchanged(now: BigIntStats | null, before: BigIntStats | null): boolean {
  if (now === null || before === null) return now === before;
  return (
    isSame(now, before) && now.size === before.size && now.mtimeNs === before.mtimeNs && now.ctimeNs === before.ctimeNs
  );
}

/** Returns the refusal for an entry that was replaced. */
export function changed(label: string): ToolRefusal {
  return new ToolRefusal(
    "interrupted",
    `${label}: was changed by somebody else meanwhile; look at it again`,
    "changed",
  );
}
