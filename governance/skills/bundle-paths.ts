import type { Faults } from "./faults.ts";

// The paths of a bundle. Decision 200: any relative path within the limits is kept. Every file system and object store must be able to
// hold it, so names that Windows reserves, and paths that differ only in case, are refused.

const segmentPattern = /^[A-Za-z0-9._-]{1,128}$/;
const segmentsMax = 16;
const pathCharsMax = 512;
/** Device names of Windows, with any extension. */
const deviceName = /^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/i;

/** Reports paths that a bundle cannot have. */
export function checkPaths(paths: readonly string[], faults: Faults): void {
  const files = new Map<string, string>();
  for (const path of paths) {
    const fault = pathFault(path);
    if (fault !== null) faults.add(path, fault);
    const other = files.get(path.toLowerCase());
    if (other !== undefined) faults.add(path, `differs from ${other} only in case`);
    files.set(path.toLowerCase(), path);
  }
  for (const path of paths) {
    const segments = path.toLowerCase().split("/");
    for (let at = 1; at < segments.length; at++)
      if (files.has(segments.slice(0, at).join("/"))) {
        faults.add(path, "lies below a file");
        break;
      }
  }
}

/** Returns why a bundle cannot have this path; null if it can. */
export function pathFault(path: string): string | null {
  if (path.length > pathCharsMax) return `the path has more than ${pathCharsMax} characters`;
  const segments = path.split("/");
  if (segments.length > segmentsMax) return `the path has more than ${segmentsMax} segments`;
  for (const segment of segments) {
    if (segment === "" || segment === "." || segment === "..")
      return "the path must be relative, without empty segments, . and ..";
    if (!segmentPattern.test(segment))
      return "each segment of the path must be 1 to 128 letters, digits, dots, underscores and hyphens";
    if (deviceName.test(segment) || segment.endsWith(".")) return "the path has a name that Windows reserves";
  }
  if (segments.length > 1 && segments.at(-1)?.toLowerCase() === "skill.md") return "SKILL.md must be at the root only";
  return null;
}
