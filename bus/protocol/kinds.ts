import type { DeliveryMessages } from "./delivery.ts";
import type { DurableMessages } from "./durable.ts";
import type { EmbedderMessages } from "./embedder.ts";
import type { JobsMessages } from "./jobs.ts";
import type { LimiterMessages } from "./limiter.ts";
import type { ManifestsMessages } from "./manifests.ts";
import type { NodeMessages } from "./node.ts";
import type { RecallMessages } from "./recall.ts";
import type { RunMessages } from "./run.ts";
import type { ThreadMessages } from "./thread.ts";
import type { WorkspaceMessages } from "./workspace.ts";

/**
 * Every actor kind and its vocabulary: for each message its `body`, and a `reply` when it can be asked. A plugin adds its own by
 * declaration merging.
 */
export interface Protocols {
  delivery: DeliveryMessages;
  embedder: EmbedderMessages;
  durable: DurableMessages;
  jobs: JobsMessages;
  limiter: LimiterMessages;
  manifests: ManifestsMessages;
  node: NodeMessages;
  recall: RecallMessages;
  run: RunMessages;
  thread: ThreadMessages;
  workspace: WorkspaceMessages;
}

/** The kinds of actors that have a vocabulary. */
export type ActorKind = keyof Protocols & string;
/** The messages that actors of a kind take. */
export type MessageType<K extends ActorKind> = keyof Protocols[K] & string;
/** Those of them that have an answer. */
export type AskType<K extends ActorKind> = {
  [T in MessageType<K>]: Protocols[K][T] extends { reply: unknown } ? T : never;
}[MessageType<K>];
/** What a message carries. */
export type Body<K extends ActorKind, T extends MessageType<K>> = Protocols[K][T] extends { body: infer B } ? B : never;
/** What the answer to a message carries; never, where there is none. */
export type Reply<K extends ActorKind, T extends MessageType<K>> = Protocols[K][T] extends { reply: infer R }
  ? R
  : never;
