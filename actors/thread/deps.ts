import type { Logger } from "pino";
import type { AuditLog } from "../../governance/audit.ts";
import type { Metrics } from "../../governance/metrics.ts";
import type { SecretMask } from "../../governance/secret-mask.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { Store } from "../../storage/store/store.ts";
import type { ThreadKeys } from "../../storage/tables/thread-keys.ts";
import type { ManifestLibrary } from "../library/manifest-library.ts";
import type { Models } from "../models/models.ts";
import type { LiveRuns } from "../runtime/live-runs.ts";
import type { CallSpending } from "../spending/one-call.ts";
import type { UnconfirmedLogs } from "./unconfirmed-logs.ts";
import type { UnpublishedEvents } from "./unpublished-events.ts";

/** Dependencies of the thread actor. */
export interface ThreadDeps extends CallSpending {
  readonly store: Store;
  readonly settings: Pick<
    Settings,
    "workspaceRoot" | "idempotencyTtlSeconds" | "threadBytes" | "tenantThreadBytes" | "webhookEndpoints"
  >;
  readonly threadKeys: ThreadKeys;
  readonly manifests: ManifestLibrary;
  readonly models: Models;
  readonly audit: AuditLog;
  readonly metrics: Metrics;
  readonly mask: SecretMask;
  readonly log: Logger;
  /** Id of this host. */
  readonly host: string;
  readonly liveRuns: LiveRuns;
  readonly unconfirmed: UnconfirmedLogs;
  readonly unpublished: UnpublishedEvents;
}
