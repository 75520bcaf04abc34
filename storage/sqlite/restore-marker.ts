import { dirname, join } from "node:path";

/** Returns the path of a file that exists while a restore fills the database. */
export function markerOf(path: string): string {
  return join(dirname(path), "svc.restoring");
}
