/** The rate of one tenant, or of one client address that has shown no credentials. */
export interface LimiterMessages {
  /**
   * Takes tokens out of the bucket for requests to come, at most `want`. Who asks spends the first at once and the others without
   * asking again, as long as the lease lasts; the bucket gives one at a time while it is low, so that no thread holds what another
   * needs.
   */
  lease: { body: { want: number }; reply: RateLease };
}

/** Requests that a caller may make now. */
export interface RateLease {
  /** Requests that may pass; 0 when the bucket is empty. */
  readonly granted: number;
  /** Milliseconds after the question in which all but the first may pass. */
  readonly forMs: number;
  /** Seconds until the next token, at least 1; 0 when something was granted. */
  readonly retryAfterSeconds: number;
}
