import { isBinaryPath } from "../binary-files.ts";
import type { BundleFiles } from "../bundle.ts";
import type { BundleDiff, FileDiff } from "./import-job.ts";
import { lineDiff } from "./line-diff.ts";

const fileCharsMax = 16_384;
const allCharsMax = 131_072;
/** Longer files are not compared line by line. */
const comparedBytesMax = 256 * 1024;
const comparedLinesMax = 4_000;

/** Returns how a bundle differs from another one, in the order of the paths. */
export function diffBundles(before: BundleFiles, after: BundleFiles): BundleDiff {
  const files: FileDiff[] = [];
  let chars = 0;
  let isCut = false;
  for (const path of [...new Set([...Object.keys(before), ...Object.keys(after)])].toSorted()) {
    const old = Object.hasOwn(before, path) ? (before[path] as string) : null;
    const now = Object.hasOwn(after, path) ? (after[path] as string) : null;
    if (old === now) continue;
    const binary = isBinaryPath(path);
    const whole = binary || !isComparable(old) || !isComparable(now) ? null : lineDiff(old ?? "", now ?? "");
    const most = Math.min(fileCharsMax, allCharsMax - chars);
    const truncated = (whole === null && !binary) || (whole !== null && whole.length > most);
    const diff = whole === null ? null : whole.slice(0, most).toWellFormed();
    chars += diff?.length ?? 0;
    isCut ||= truncated;
    files.push({
      ...{ path, change: old === null ? "added" : now === null ? "removed" : "modified", binary },
      ...{ old_size: sizeOf(path, old), new_size: sizeOf(path, now), diff, truncated },
    });
  }
  return { files, diff_truncated: isCut };
}

function isComparable(text: string | null): boolean {
  if (text === null) return true;
  return Buffer.byteLength(text) <= comparedBytesMax && text.split("\n").length <= comparedLinesMax;
}

function sizeOf(path: string, text: string | null): number | null {
  return text === null ? null : Buffer.byteLength(text, isBinaryPath(path) ? "base64" : "utf8");
}
