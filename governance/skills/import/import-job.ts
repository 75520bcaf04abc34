import type { ComputeJob, ComputePool } from "../../compute/compute-pool.ts";
import type { BundleFiles } from "../bundle.ts";

// The parts of an import that would block an event loop: they read texts of up to 8 MiB that a stranger wrote.

/** An entry of a tree of git. */
export interface GitEntry {
  /** Below the folder that was listed. */
  readonly path: string;
  /** A `link` and a `module` have no contents that a skill may have. */
  readonly kind: "file" | "folder" | "link" | "module";
  readonly sha: string;
  /** Bytes of a file; 0 for others. */
  readonly size: number;
}

/** The entries of a folder. */
export interface Folder {
  readonly entries: readonly GitEntry[];
  /** True if the code host left some out. */
  readonly isCut: boolean;
}

/** A file as the code host sent it. */
export interface SentFile {
  readonly path: string;
  readonly sha: string;
  readonly bytes: Uint8Array;
}

/** A bundle made of files that were sent. */
export interface SentBundle {
  /** The name in SKILL.md; empty if it cannot be read. */
  readonly name: string;
  readonly files: BundleFiles;
  /** Paths of the files that a bundle cannot have. */
  readonly dropped: readonly string[];
}

/** The head of a SKILL.md. */
export interface SentHead {
  /** Empty if it cannot be read. */
  readonly name: string;
  readonly description: string;
}

/** How a file differs between two versions. */
export interface FileDiff {
  readonly path: string;
  readonly change: "added" | "removed" | "modified";
  readonly binary: boolean;
  readonly old_size: number | null;
  readonly new_size: number | null;
  /** The lines of a unified diff; null if there is none. */
  readonly diff: string | null;
  readonly truncated: boolean;
}

/** How a bundle differs from another one. */
export interface BundleDiff {
  readonly files: readonly FileDiff[];
  readonly diff_truncated: boolean;
}

/** The kinds of work, with their inputs and outputs. */
export interface ImportWork {
  /** Reads the listing of a folder; null if it is malformed. */
  tree: { in: Uint8Array; out: Folder | null };
  /** Makes a bundle; null if a file has another hash than its tree names. */
  bundle: { in: readonly SentFile[]; out: SentBundle | null };
  /** Reads the heads of several SKILL.md. */
  heads: { in: readonly Uint8Array[]; out: readonly SentHead[] };
  /** Compares two bundles. */
  diff: { in: { readonly before: BundleFiles; readonly after: BundleFiles }; out: BundleDiff };
}

/** Some work of an import. */
export interface ImportTask {
  readonly kind: keyof ImportWork;
  readonly input: unknown;
}

const importJob: ComputeJob<ImportTask, unknown> = {
  name: "doImportWork",
  file: new URL("./import-worker.ts", import.meta.url),
  deadlineMs: 20_000,
  heapMb: 512,
  waitingMax: 256,
};

/** Does some work of an import in the compute pool. Rejects if there is no result in time. */
export async function importWork<K extends keyof ImportWork>(
  compute: Pick<ComputePool, "run">,
  kind: K,
  input: ImportWork[K]["in"],
): Promise<ImportWork[K]["out"]> {
  return (await compute.run(importJob, { kind, input })) as ImportWork[K]["out"];
}
