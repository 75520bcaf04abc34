import { nearest } from "../bus/nearest.ts";

/** Max paths in a message; more would not be readable. */
const listedMax = 5;

/** Returns advice for an unknown path: the nearest of `paths`, or those that it is a prefix of. Empty if there is none. */
export function meantPath(path: string, paths: readonly string[]): string {
  const asked = path.split("/");
  // The client's value for a parameter is no typo, so it is copied into the pattern before the comparison.
  const filled = new Map(paths.map((each) => [fill(each.split("/"), asked), each]));
  const near = nearest(path, filled.keys());
  // A path that only adds a parameter is listed below with its siblings.
  if (near !== null && !near.startsWith(`${path}/`)) return ` Did you mean ${filled.get(near)}?`;
  const below = paths.filter((each) => each.startsWith(`${path.replace(/\/$/, "")}/{`)).slice(0, listedMax);
  return below.length === 0 ? "" : ` There is ${below.join(", ")}.`;
}

function fill(pattern: readonly string[], asked: readonly string[]): string {
  if (pattern.length !== asked.length) return pattern.join("/");
  return pattern.map((segment, at) => (segment.startsWith("{") && asked[at] !== "" ? asked[at] : segment)).join("/");
}
