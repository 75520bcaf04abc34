/** Numbers of durable runs that cannot continue, by reason. */
export interface UnreadyRuns {
  readonly reasons: readonly { readonly why: string; readonly runs: number }[];
}

/** Messages to a node itself, for the concerns of its whole thread. */
export interface NodeMessages {
  /** Returns the durable runs that cannot continue with the settings of this process. */
  unreadyRuns: { body: Record<string, never>; reply: UnreadyRuns };
  /** Invalidates the cached manifest of a tenant after a change. */
  forgetManifest: { body: { tenant_id: string; name: string }; reply: Record<string, never> };
}
