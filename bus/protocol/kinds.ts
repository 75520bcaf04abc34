import type { AuditMessages } from "./audit.ts";
import type { CommandsMessages } from "./commands.ts";
import type { DeliveryMessages } from "./delivery.ts";
import type { DurableMessages } from "./durable.ts";
import type { EmbedderMessages } from "./embedder.ts";
import type { EvalsMessages } from "./evals.ts";
import type { HostMessages } from "./host.ts";
import type { JobsMessages } from "./jobs.ts";
import type { LimiterMessages } from "./limiter.ts";
import type { ManifestsMessages } from "./manifests.ts";
import type { MemoryMessages } from "./memory.ts";
import type { NodeMessages } from "./node.ts";
import type { RecallMessages } from "./recall.ts";
import type { RunMessages } from "./run.ts";
import type { SkillJobsMessages } from "./skill-jobs.ts";
import type { ThreadMessages } from "./thread.ts";
import type { WorkflowMessages, WorkflowsMessages } from "./workflow.ts";
import type { WorkspaceMessages } from "./workspace.ts";

/**
 * Every actor kind and its vocabulary: for each message its `body`, and a `reply` if it is an ask. A plugin adds kinds
 * by declaration merging.
 */
export interface Protocols {
  audit: AuditMessages;
  commands: CommandsMessages;
  delivery: DeliveryMessages;
  embedder: EmbedderMessages;
  durable: DurableMessages;
  host: HostMessages;
  evals: EvalsMessages;
  jobs: JobsMessages;
  limiter: LimiterMessages;
  manifests: ManifestsMessages;
  memory: MemoryMessages;
  node: NodeMessages;
  recall: RecallMessages;
  run: RunMessages;
  skilljobs: SkillJobsMessages;
  thread: ThreadMessages;
  workflow: WorkflowMessages;
  workflows: WorkflowsMessages;
  workspace: WorkspaceMessages;
}

/** The actor kinds. */
export type ActorKind = keyof Protocols & string;
/** The message types of a kind. */
export type MessageType<K extends ActorKind> = keyof Protocols[K] & string;
/** The message types of a kind that have a reply. */
export type AskType<K extends ActorKind> = {
  [T in MessageType<K>]: Protocols[K][T] extends { reply: unknown } ? T : never;
}[MessageType<K>];
/** The body of a message. */
export type Body<K extends ActorKind, T extends MessageType<K>> = Protocols[K][T] extends { body: infer B } ? B : never;
/** The reply to a message; never, if there is none. */
export type Reply<K extends ActorKind, T extends MessageType<K>> = Protocols[K][T] extends { reply: infer R }
  ? R
  : never;
