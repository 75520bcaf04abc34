import type { Metrics } from "../../governance/metrics.ts";
import type { Store } from "../../storage/store/store.ts";
import type { ThreadKeys } from "../../storage/tables/thread-keys.ts";
import type { ManifestLibrary } from "../library/manifest-library.ts";

/** What conversations need beside their state. */
export interface ThreadDeps {
  readonly store: Store;
  readonly threadKeys: ThreadKeys;
  /** For the name under which interrupted calls are counted. */
  readonly manifests: ManifestLibrary;
  readonly metrics: Metrics;
}
