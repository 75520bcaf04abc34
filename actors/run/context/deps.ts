import type { Logger } from "pino";
import type { Bus } from "../../../bus/bus.ts";
import type { Env } from "../../../bus/env.ts";
import type { SlotSet } from "../../../bus/slot-map.ts";
import type { AuditLog } from "../../../governance/audit.ts";
import type { StoredAccess } from "../../../governance/auth/stored-access.ts";
import type { ComputePool } from "../../../governance/compute/compute-pool.ts";
import type { MakeControl, MakeInputControl } from "../../../governance/controls/control.ts";
import type { Detectors } from "../../../governance/detection/detectors.ts";
import type { Outgoing } from "../../../governance/egress/outgoing.ts";
import type { Redis } from "../../../governance/egress/redis.ts";
import type { Freezes } from "../../../governance/freezes.ts";
import type { HookDeps } from "../../../governance/hooks/run-hooks.ts";
import type { Metrics } from "../../../governance/metrics.ts";
import type { SecretMask, Secrets } from "../../../governance/secret-mask.ts";
import type { Settings } from "../../../governance/settings/settings.ts";
import type { SkillCatalogs } from "../../../governance/skills/catalogs.ts";
import type { SkillLibrary } from "../../../governance/skills/library.ts";
import type { Spending } from "../../../governance/spending.ts";
import type { Tracer } from "../../../governance/tracing/tracer.ts";
import type { TextVectors } from "../../../governance/vectors/text-vectors.ts";
import type { ArtifactStore } from "../../../storage/files/artifact-store.ts";
import type { FileStore } from "../../../storage/files/file-store.ts";
import type { Store } from "../../../storage/store/store.ts";
import type { ManifestLibrary } from "../../library/manifest-library.ts";
import type { Models } from "../../models/models.ts";
import type { TokenCounter } from "../../models/token-counter.ts";
import type { ContextMemory } from "../../runtime/context-memory.ts";
import type { LiveRuns } from "../../runtime/live-runs.ts";
import type { ToolSource } from "../../tools/source.ts";
import type { ToolSets } from "../../tools/tool-sets.ts";
import type { KnownPrefixes } from "../billing/call-rows.ts";
import type { ContextSource } from "../prompt/context-source.ts";
import type { VectorMemory } from "../prompt/vector-memory.ts";
import type { TextPace } from "../stream/text-pace.ts";
import type { HeardRun } from "./suspended-runs.ts";

/** Services for the parts of a run. Created once per actor thread. */
export interface RunDeps extends HookDeps {
  readonly env: Env;
  readonly bus: Bus;
  readonly settings: Settings;
  /** Makes spans; null if traces are off. */
  readonly tracer: Tracer | null;
  /** The freezes of tenants. */
  readonly freezes: Freezes;
  /** The stored keys and sign-ins. */
  readonly access: StoredAccess;
  /** Reads them again. */
  readAccess(): Promise<void>;
  /** The budgets of tenants. */
  readonly spending: Spending;
  readonly store: Store;
  /** Limits the memory that the turns of this thread use for messages. */
  readonly contexts: ContextMemory;
  /** Stores images of callers and tools. */
  readonly files: FileStore;
  /** Stores long tool results. */
  readonly artifacts: ArtifactStore;
  readonly models: Models;
  readonly tokens: TokenCounter;
  /** Vectors of messages that `semantic:N` has compared. */
  readonly vectors: VectorMemory;
  readonly textVectors: TextVectors;
  /** Prompt prefixes that this thread knows to be stored. */
  readonly prefixes: KnownPrefixes;
  /** Sources of the tools of runs. */
  readonly toolSources: readonly ToolSource[];
  /** Opened tool sources, shared by the agents of this thread. */
  readonly toolSets: ToolSets;
  /** Sends requests of tools. */
  readonly outgoing: Outgoing;
  /** Resolves secrets of settings and manifests. */
  readonly secrets: Secrets;
  /** Does work that would block the event loop. */
  readonly compute: ComputePool;
  /** Finds personal data. */
  readonly detectors: Detectors;
  /** The controls around the calls and replies of every run. */
  readonly controls: readonly MakeControl[];
  /** Controls on the messages of callers, before a turn is accepted. */
  readonly inputControls: readonly MakeInputControl[];
  /** Sources that contribute to the context of a model call. */
  readonly contextSources: readonly ContextSource[];
  /** The catalogs of skills. */
  readonly skills: SkillCatalogs;
  /** The skill library. */
  readonly skillLibrary: SkillLibrary;
  /** Redis for tool queues; null without SVC_REDIS_URL. */
  readonly redis: Pick<Redis, "command" | "close"> | null;
  readonly manifests: ManifestLibrary;
  readonly audit: AuditLog;
  readonly metrics: Metrics;
  /** Decides when runs send the text that they have read. */
  readonly pace: TextPace;
  readonly mask: SecretMask;
  readonly log: Logger;
  /** Every run of this thread that has not ended. */
  readonly liveRuns: LiveRuns;
  /** Suspended runs of this thread whose clients are still connected. */
  readonly heardRuns: SlotSet<HeardRun>;
  /** This process and thread, as run rows and claimed keys name them; see `Owner`. */
  readonly owner: string;
  /** Id of the host that this thread belongs to. */
  readonly host: string;
}
