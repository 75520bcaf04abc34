import type { Logger } from "pino";
import type { Bus } from "../bus/bus.ts";
import type { Env } from "../bus/env.ts";
import type { SvcError } from "../bus/errors.ts";
import type { TaskAnswer } from "../bus/protocol/host.ts";
import type { NodeId } from "../bus/protocol/node-id.ts";
import type { SlotMember, SlotSet } from "../bus/slot-map.ts";
import type { KeyRing } from "../governance/auth/key-ring.ts";
import type { ComputePool } from "../governance/compute/compute-pool.ts";
import type { DocumentExtractor } from "../governance/documents/extractor.ts";
import type { Outgoing } from "../governance/egress/outgoing.ts";
import type { Redis } from "../governance/egress/redis.ts";
import type { MetricSnapshot, Metrics } from "../governance/metrics.ts";
import type { Connections } from "../governance/repos/connections.ts";
import type { RepoApi } from "../governance/repos/repo-api.ts";
import type { SecretMask, Secrets } from "../governance/secret-mask.ts";
import type { Settings } from "../governance/settings/settings.ts";
import type { SignIn } from "../governance/sign-in/sign-in.ts";
import type { SkillImports } from "../governance/skills/import/skill-imports.ts";
import type { SkillLibrary } from "../governance/skills/library.ts";
import type { Tracer } from "../governance/tracing/tracer.ts";
import type { TextVectors } from "../governance/vectors/text-vectors.ts";
import type { ArtifactStore } from "../storage/files/artifact-store.ts";
import type { DocumentFiles } from "../storage/files/document-files.ts";
import type { FileStore } from "../storage/files/file-store.ts";
import type { ObjectStore } from "../storage/objects/object-store.ts";
import type { Store } from "../storage/store/store.ts";
import type { Backlogs } from "./backlog/backlogs.ts";
import type { DurableAgents } from "./early-listener.ts";
import type { EmbeddingQueue } from "./embedding-queue.ts";
import type { StreamRegistry } from "./exchange/sse.ts";
import type { RateLimiter } from "./middleware/rate-limit.ts";
import type { NewsFeeds } from "./news/news-feeds.ts";
import type { Probe } from "./probe.ts";
import type { ThreadFanOut } from "./thread-fan-out.ts";
import type { WorkflowFeeds } from "./workflows/workflow-feeds.ts";

/** A live turn, as seen by code that must end it. */
export interface LiveTurn extends SlotMember {
  /** Called when a node is lost, which may be the one that runs the turn. */
  lost(node: NodeId): void;
  /** Ends the client's turn with an error. */
  fail(error: SvcError): void;
}

/** Services that the handlers of one HTTP thread share. */
export interface HttpContext {
  readonly env: Env;
  readonly settings: Settings;
  readonly bus: Bus;
  readonly store: Store;
  readonly objects: ObjectStore;
  readonly files: FileStore;
  readonly artifacts: ArtifactStore;
  readonly documentFiles: DocumentFiles;
  /** The skill library. */
  readonly skillLibrary: SkillLibrary;
  /** Imports skills from the code host. */
  readonly skillImports: SkillImports;
  /** Does work that would block the event loop. */
  readonly compute: ComputePool;
  readonly streams: StreamRegistry;
  readonly fanOut: ThreadFanOut;
  /** Agents whose turns recently became durable runs; see early-listener.ts. */
  readonly durableAgents: DurableAgents;
  /** The shared pages from which clients that connect late read past events. */
  readonly backlogs: Backlogs;
  /** The fair queue of embedding requests. */
  readonly embeddings: EmbeddingQueue;
  /** Vectors of stored texts, and of the queries of searches. */
  readonly textVectors: TextVectors;
  /** True if an image in a turn of an agent without a model of its own reaches a model that takes it. */
  readonly seesImages: boolean;
  /** Reads the texts of files. */
  readonly extractor: DocumentExtractor;
  /** The rate limits of requests. A route takes rates of its own from it. */
  readonly rates: RateLimiter;
  /** Live turns that this thread started. */
  readonly turns: SlotSet<LiveTurn>;
  /** The news of tenants, for GET /events. */
  readonly news: NewsFeeds;
  /** The new versions of runs of workflows that clients watch. */
  readonly workflowFeeds: WorkflowFeeds;
  /** Streams that watch a conversation without having started its turn. */
  readonly reattached: SlotSet<SlotMember & { endWhenIdle(): void }>;
  readonly metrics: Metrics;
  /** Makes spans; null if traces are off. */
  readonly tracer: Tracer | null;
  /** Masks secrets in stored data of a tenant. */
  readonly mask: SecretMask;
  /** Sends requests to other servers. */
  readonly outgoing: Outgoing;
  /** Resolves `secret:NAME`. */
  readonly secrets: Secrets;
  readonly log: Logger;
  /** Epoch milliseconds of the start of the process. */
  readonly startedAt: number;
  /** True if the database lacks migrations of this release. */
  schemaBehind(): Promise<boolean>;
  /** Null if no identity provider is configured. */
  readonly signIn: SignIn | null;
  /** The accounts of the code host that people have connected, and its API. */
  readonly connections: Connections;
  readonly repoApi: RepoApi;
  /** Finds keys that are made at run time; null without SVC_RUNTIME_KEYS. */
  readonly keyRing: KeyRing | null;
  /** Null without SVC_REDIS_URL. */
  readonly redis: Redis | null;
  /** The dependency checks of /ready. */
  readonly probes: {
    readonly database: Probe;
    readonly object_store: Probe;
    /** Null without SVC_REDIS_URL. */
    readonly redis: Probe | null;
  };
  /** The release, shown by /health and /openapi.json. */
  readonly version: string;
  /** Returns the metrics of all threads of the process. */
  allMetrics(): Promise<readonly MetricSnapshot[]>;
  /** Runs a periodic task of the process now. Rejects if the task fails. */
  runTask(name: string): Promise<TaskAnswer>;
  /** True from the first stop signal on: /ready reports it, so that a load balancer sends no more requests. */
  draining(): boolean;
  /** True once new work is refused on connections that are still open. */
  closing(): boolean;
}
