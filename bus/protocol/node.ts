import type { News } from "./news.ts";
import type { NodeId } from "./node-id.ts";

/** Numbers of durable runs that cannot continue, by reason. */
export interface UnreadyRuns {
  readonly reasons: readonly { readonly why: string; readonly runs: number }[];
}

/** Messages to a node itself, for the concerns of its whole thread. */
export interface NodeMessages {
  /** Returns the durable runs that cannot continue with the settings of this process. */
  unreadyRuns: { body: Record<string, never>; reply: UnreadyRuns };
  /** Reads the freezes of all tenants, and stops the runs that are frozen. */
  readFreezes: { body: Record<string, never>; reply: Record<string, never> };
  /** Reads which keys and sign-ins have changed. */
  readAccess: { body: Record<string, never>; reply: Record<string, never> };
  /** Publishes news of a tenant that a thread without actors reports. */
  news: { body: { tenant_id: string; news: News } };
  /** Says whether the node has an actor in memory. */
  holds: { body: { kind: string; key: string }; reply: { holds: boolean } };
  /** Takes a thread from its home to the node, so that a durable run works there. Not borrowed: it is in use at its home. */
  borrow: { body: { thread: string; run: string }; reply: { borrowed: boolean } };
  /** The run of a borrowed thread has been taken, or cannot be taken. */
  settled: { body: { thread: string } };
  /** Lets a thread go from its home to another node. Returns its subscribers; null if it is in use. */
  lend: { body: { thread: string; run: string; to: NodeId }; reply: { subscribers: readonly NodeId[] | null } };
  /** A lent thread has returned to its home. */
  returned: { body: { thread: string } };
  /** Invalidates the cached manifest of a tenant after a change. */
  forgetManifest: { body: { tenant_id: string; name: string }; reply: Record<string, never> };
}
