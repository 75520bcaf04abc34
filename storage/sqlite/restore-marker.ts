import { dirname, join } from "node:path";

/** The file beside a database that is there for as long as a backup is being put into it. */
export function markerOf(path: string): string {
  return join(dirname(path), "svc.restoring");
}
