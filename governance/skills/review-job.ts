import type { ComputeJob } from "../compute/compute-pool.ts";
import type { BundleFiles, SkillHead } from "./bundle.ts";
import type { BundleFault } from "./faults.ts";
import type { Quality } from "./quality.ts";
import type { SecurityScan } from "./scan.ts";

/** What a review finds in a bundle. */
export interface BundleReview {
  readonly faults: readonly BundleFault[];
  /** Null if SKILL.md cannot be read. */
  readonly head: SkillHead | null;
  readonly quality: Quality;
  readonly security: SecurityScan;
  readonly files: readonly BundleFile[];
  /** SHA-256 of the whole bundle. */
  readonly digest: string;
}

/** A file of a bundle. `sha256` and `size` are those of its bytes. */
export interface BundleFile {
  readonly path: string;
  readonly sha256: string;
  readonly size: number;
}

/** Reads, scores and scans a bundle. */
export const reviewJob: ComputeJob<BundleFiles, BundleReview> = {
  name: "reviewBundle",
  file: new URL("./review-worker.ts", import.meta.url),
  deadlineMs: 20_000,
  heapMb: 256,
  waitingMax: 64,
};

/** A folder of skills on disk. */
export interface SkillFolder {
  readonly path: string;
  /** Max skills that are read. */
  readonly skillsMax: number;
}

/** A skill that was found in a folder. */
export interface FoundSkill {
  /** Its folder. */
  readonly folder: string;
  readonly head: SkillHead;
  readonly files: readonly BundleFile[];
}

/** The skills of a folder, and why others were left out. */
export interface FoundSkills {
  readonly skills: readonly FoundSkill[];
  readonly problems: readonly string[];
}

/** Finds the skills of a folder. */
export const findSkillsJob: ComputeJob<SkillFolder, FoundSkills> = {
  name: "findSkills",
  file: new URL("./folder.ts", import.meta.url),
  deadlineMs: 30_000,
  heapMb: 256,
  waitingMax: 64,
};
