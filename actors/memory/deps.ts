import type { Logger } from "pino";
import type { Freezes } from "../../governance/freezes.ts";
import type { Metrics } from "../../governance/metrics.ts";
import type { SecretMask } from "../../governance/secret-mask.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { Spending } from "../../governance/spending.ts";
import type { TextVectors } from "../../governance/vectors/text-vectors.ts";
import type { Store } from "../../storage/store/store.ts";
import type { ManifestLibrary } from "../library/manifest-library.ts";
import type { Models } from "../models/models.ts";
import type { LiveRuns } from "../runtime/live-runs.ts";

/** Dependencies of the memory actor. */
export interface MemoryDeps {
  readonly store: Store;
  readonly manifests: Pick<ManifestLibrary, "resolve">;
  readonly models: Models;
  readonly freezes: Freezes;
  readonly spending: Spending;
  readonly metrics: Metrics;
  readonly mask: SecretMask;
  readonly settings: Pick<Settings, "tenantStoredBytes" | "duties">;
  readonly log: Logger;
  readonly textVectors: TextVectors;
  readonly liveRuns: LiveRuns;
  /** Id of this host, and name of this thread of it, as claims name it. */
  readonly host: string;
  readonly owner: string;
}
