/** Messages to the rate limiter of one tenant, or of one client address without credentials. */
export interface LimiterMessages {
  /**
   * Takes up to `want` tokens out of the bucket for future requests. The caller uses one token at once. It
   * may use the others while the lease lasts, without asking again. A low bucket grants one token at a time, so that no thread holds
   * tokens that another needs.
   */
  lease: { body: { want: number }; reply: RateLease };
}

/** A rate of a route's own, such as that of a storefront. */
export interface OwnRate {
  /** Names the bucket among those of all routes. */
  readonly bucket: string;
  readonly limit: number;
  readonly windowSeconds: number;
}

const ownRate = /^=(\d+)\/(\d+)\//;

/** Returns the key of the limiter actor for a rate of a route's own; no tenant and no address has such a key. */
export function ownRateKey({ bucket, limit, windowSeconds }: OwnRate): string {
  return `=${limit}/${windowSeconds}/${bucket}`;
}

/** Returns the rate in a key of `ownRateKey`; null for the key of a tenant or an address. */
export function rateOfKey(key: string): Omit<OwnRate, "bucket"> | null {
  const [, limit, windowSeconds] = ownRate.exec(key) ?? [];
  return limit === undefined ? null : { limit: Number(limit), windowSeconds: Number(windowSeconds) };
}

/** Requests that a caller may make now. */
export interface RateLease {
  /** Number of allowed requests; 0 if the bucket is empty. */
  readonly granted: number;
  /** Milliseconds after the ask during which the requests after the first are allowed. */
  readonly forMs: number;
  /** Seconds until the next token, at least 1; 0 if tokens were granted. */
  readonly retryAfterSeconds: number;
}
