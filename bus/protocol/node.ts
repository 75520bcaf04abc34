/** Durable runs that could not go on, counted by why. */
export interface UnreadyRuns {
  readonly reasons: readonly { readonly why: string; readonly runs: number }[];
}

/** A node itself, as an actor that lives on it: what concerns its whole thread. */
export interface NodeMessages {
  /** Which durable runs could not go on with the settings of this process. */
  unreadyRuns: { body: Record<string, never>; reply: UnreadyRuns };
  /** A tenant's manifest has changed: what is known of it is read again. */
  forgetManifest: { body: { tenant_id: string; name: string }; reply: Record<string, never> };
}
