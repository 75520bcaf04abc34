import type { ThreadKeys } from "../../storage/tables/thread-keys.ts";
import type { PatternDeps } from "../run/pattern.ts";

/** What conversations need beside their state. */
export interface ThreadDeps extends PatternDeps {
  readonly threadKeys: ThreadKeys;
}
