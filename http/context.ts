import type { Logger } from "pino";
import type { Bus } from "../bus/bus.ts";
import type { Env } from "../bus/env.ts";
import type { SvcError } from "../bus/errors.ts";
import type { NodeId } from "../bus/protocol/node-id.ts";
import type { SlotMember, SlotSet } from "../bus/slot-map.ts";
import type { Redis } from "../governance/egress/redis.ts";
import type { MetricSnapshot, Metrics } from "../governance/metrics.ts";
import type { SecretMask } from "../governance/secret-mask.ts";
import type { Settings } from "../governance/settings/settings.ts";
import type { FileStore } from "../storage/files/file-store.ts";
import type { ObjectStore } from "../storage/objects/object-store.ts";
import type { Store } from "../storage/store/store.ts";
import type { Backlogs } from "./backlog/backlogs.ts";
import type { DurableAgents } from "./early-listener.ts";
import type { EmbeddingQueue } from "./embedding-queue.ts";
import type { StreamRegistry } from "./exchange/sse.ts";
import type { Probe } from "./probe.ts";
import type { ThreadFanOut } from "./thread-fan-out.ts";

/** A turn that is under way, as those see it who must end it. */
export interface LiveTurn extends SlotMember {
  /** A node is gone; it may have been the one that runs the turn. */
  lost(node: NodeId): void;
  /** Tells the client that the turn ends here. */
  fail(error: SvcError): void;
}

/**
 * What became of a task that somebody has asked for: done, or that there is none, or that nothing begins any more,
 * or that the process leaves it to others.
 */
export type TaskAnswer = "done" | "unknown" | "stopped" | "not_held";

/** What the handlers of one http thread share. */
export interface HttpContext {
  readonly env: Env;
  readonly settings: Settings;
  readonly bus: Bus;
  readonly store: Store;
  readonly objects: ObjectStore;
  readonly files: FileStore;
  readonly streams: StreamRegistry;
  readonly fanOut: ThreadFanOut;
  /** Whose turns are listened to before they are accepted. */
  readonly durableAgents: DurableAgents;
  /** Where what threads have said is read from, by all who come late to it. */
  readonly backlogs: Backlogs;
  /** Who may ask for vectors now. */
  readonly embeddings: EmbeddingQueue;
  /** Turns under way that this thread has started. */
  readonly turns: SlotSet<LiveTurn>;
  /** Streams that listen to a conversation without having started its turn. */
  readonly reattached: SlotSet<SlotMember & { endWhenIdle(): void }>;
  readonly metrics: Metrics;
  /** For what a tenant may have stored with a secret in it. */
  readonly mask: SecretMask;
  readonly log: Logger;
  /** Epoch milliseconds of the start of the process. */
  readonly startedAt: number;
  /** Whether the database lacks migrations of this release. */
  schemaBehind(): Promise<boolean>;
  /** What /ready tries. */
  /** Null without SVC_REDIS_URL. */
  readonly redis: Redis | null;
  readonly probes: {
    readonly database: Probe;
    readonly object_store: Probe;
    /** Null without SVC_REDIS_URL. */
    readonly redis: Probe | null;
  };
  /** The release, as /health and /openapi.json tell it. */
  readonly version: string;
  /** What every thread of the process has counted. */
  allMetrics(): Promise<readonly MetricSnapshot[]>;
  /** Does a periodic task of the process now. Rejects when it has failed. */
  runTask(name: string): Promise<TaskAnswer>;
  /** True from the first signal to stop: /ready says so, and whoever spreads requests sends no more. */
  draining(): boolean;
  /** True once nothing new begins any more, on connections that are still open. */
  closing(): boolean;
}
