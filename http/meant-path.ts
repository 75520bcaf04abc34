import { nearest } from "../bus/nearest.ts";

/** More paths than these are no help to read. */
const listedMax = 5;

/** What to say behind a path that is not there: the nearest of `paths`, or those that it is the beginning of; empty without any. */
export function meantPath(path: string, paths: readonly string[]): string {
  const asked = path.split("/");
  // What stands in the place of a parameter is the client's own, and no slip.
  const filled = new Map(paths.map((each) => [fill(each.split("/"), asked), each]));
  const near = nearest(path, filled.keys());
  // What goes on with a parameter is told below, beside others that do.
  if (near !== null && !near.startsWith(`${path}/`)) return ` Did you mean ${filled.get(near)}?`;
  const below = paths.filter((each) => each.startsWith(`${path.replace(/\/$/, "")}/{`)).slice(0, listedMax);
  return below.length === 0 ? "" : ` There is ${below.join(", ")}.`;
}

function fill(pattern: readonly string[], asked: readonly string[]): string {
  if (pattern.length !== asked.length) return pattern.join("/");
  return pattern.map((segment, at) => (segment.startsWith("{") && asked[at] !== "" ? asked[at] : segment)).join("/");
}
