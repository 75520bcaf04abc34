import { createHash } from "node:crypto";
import { isBinaryPath } from "./binary-files.ts";
import { type BundleFiles, bundleDigest, readBundle } from "./bundle.ts";
import { qualityOf } from "./quality.ts";
import type { BundleFile, BundleReview } from "./review-job.ts";
import { scanBundle } from "./scan.ts";

// Entry of the thread that reviews bundles; it calls `reviewBundle` for each task.

/** Reads, scores and scans a bundle. */
export function reviewBundle(files: BundleFiles): BundleReview {
  const bundle = readBundle(files);
  const list = filesOf(files);
  return {
    faults: bundle.faults,
    head: bundle.head,
    quality: qualityOf(files, bundle),
    security: scanBundle(files, bundle.plugin),
    files: list,
    digest: bundleDigest(list),
  };
}

/** Returns the files of a bundle with digest and size, in the order of their paths. */
function filesOf(files: BundleFiles): BundleFile[] {
  return Object.entries(files)
    .map(([path, content]) => {
      const bytes = Buffer.from(content, isBinaryPath(path) ? "base64" : "utf8");
      return { path, sha256: createHash("sha256").update(bytes).digest("hex"), size: bytes.length };
    })
    .toSorted((a, b) => (a.path < b.path ? -1 : 1));
}
