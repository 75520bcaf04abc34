// The arithmetic of a token bucket with several concurrent holders, on plain values.
//
// A holder prefetches a slice: tokens that it may spend until a deadline. They count as spent from the start. The level then
// refills over time, but not below the unspent part of a slice, for as long as the slice lasts. So all holders together never
// exceed the limit plus the refill, in any span of time. A holder that returns reports its unspent tokens. If it does not return
// (it was killed), its slice counts as spent at the deadline.

/** The rate: `limit` tokens at once, refilled evenly over the window. */
export interface Rate {
  readonly limit: number;
  readonly windowMs: number;
}

/** The unspent tokens that one holder may have. */
export interface Slice {
  readonly holder: string;
  readonly held: number;
  /** Store time in epoch milliseconds; after it none of the tokens may be spent. */
  readonly until: number;
}

/** The used part of a bucket. */
export interface BucketState {
  /** In units in which a token is `windowMs` and each millisecond refills `limit`, so that there are no fractions. */
  readonly level: number;
  /** Epoch milliseconds of the store. */
  readonly at: number;
  /** Slices that had not ended at that time, ordered by deadline. */
  readonly slices: readonly Slice[];
  /** The unit of `level` when the state was written. */
  readonly windowMs: number;
}

/** Max share of the available tokens in one slice. */
const prefetchShare = 1 / 64;
/** Max share for a single holder: no other holder needs the tokens, and a small limit then needs fewer writes. */
const onlyShare = 1 / 4;
const onlyMax = 16;

/** Returns an unused bucket. */
export function fullBucket({ windowMs }: Rate, now: number): BucketState {
  return { level: 0, at: now, slices: [], windowMs };
}

/** Max delay of a time reported by the store, compared with one reported to another holder. */
const behindMsMax = 60_000;

/**
 * Returns the bucket at a later time. An earlier time changes nothing, unless the store's clock was set back by more than
 * `behindMsMax`. Then the bucket is moved to that time, because otherwise it would not refill until the clock had caught up.
 */
export function drained(given: BucketState, { limit, windowMs }: Rate, now: number): BucketState {
  const state = given.at - now > behindMsMax ? movedTo(given, now) : given;
  let level = windowMs === state.windowMs ? state.level : (state.level / state.windowMs) * windowMs;
  let { at } = state;
  let held = heldIn(state);
  let ended = 0;
  const sink = (until: number): void => {
    level = Math.min(level, Math.max(held * windowMs, level - Math.max(0, until - at) * limit));
    at = Math.max(at, until);
  };
  for (const slice of state.slices) {
    if (slice.until > now) break;
    sink(slice.until);
    held -= slice.held;
    ended++;
  }
  sink(now);
  return { level, at, slices: ended === 0 ? state.slices : state.slices.slice(ended), windowMs };
}

function movedTo(state: BucketState, now: number): BucketState {
  const slices = state.slices.map((slice) => ({ ...slice, until: slice.until - state.at + now }));
  return { ...state, at: now, slices };
}

/** Returns the tokens that can be taken now; `state` must be drained to now. */
export function available({ level }: BucketState, { limit, windowMs }: Rate): number {
  return Math.max(0, Math.floor((limit * windowMs - level) / windowMs));
}

/** Returns the milliseconds until a token is available, if no holder takes or returns any. */
export function nextTokenMs(state: BucketState, { limit, windowMs }: Rate): number {
  const target = (limit - 1) * windowMs;
  let { level, at } = state;
  let held = heldIn(state);
  for (const slice of state.slices) {
    const after = Math.max(0, level - target) / limit;
    if (held * windowMs <= target && at + after <= slice.until) break;
    level = Math.min(level, Math.max(held * windowMs, level - (slice.until - at) * limit));
    at = slice.until;
    held -= slice.held;
  }
  return at - state.at + Math.max(0, level - target) / limit;
}

/** Returns how many tokens a holder may prefetch: a sixty-fourth of those left, and none near the end. */
export function spareMax(left: number, isOnly: boolean): number {
  const share = Math.floor(left * prefetchShare);
  return isOnly ? Math.max(share, Math.min(onlyMax, Math.floor(left * onlyShare))) : share;
}

/** True if no other holder has a slice. */
export function isOnly({ slices }: BucketState, holder: string): boolean {
  return slices.every((slice) => slice.holder === holder);
}

/** A change by a holder. */
export interface Settlement {
  /** Tokens taken; negative if the holder returns them. */
  readonly taken: number;
  /** Unspent tokens that the holder has afterwards; the rest of its tokens is spent. */
  readonly held: number;
  readonly until: number;
}

/** Returns the bucket after a holder took or returned tokens. `state` must be drained to now. */
export function settled(state: BucketState, holder: string, { taken, held, until }: Settlement): BucketState {
  const others = state.slices.filter((slice) => slice.holder !== holder);
  const slices = held > 0 ? [...others, { holder, held, until }].sort((a, b) => a.until - b.until) : others;
  return { ...state, level: Math.max(0, state.level + taken * state.windowMs), slices };
}

/** Returns the store time at which the bucket is unused again, if no holder takes any tokens. */
export function fullAt(state: BucketState, { limit, windowMs }: Rate): number {
  let { level, at } = state;
  let held = heldIn(state);
  for (const slice of state.slices) {
    level = Math.max(held * windowMs, level - Math.max(0, slice.until - at) * limit);
    at = Math.max(at, slice.until);
    held -= slice.held;
  }
  return Math.ceil(at + Math.max(0, level) / limit);
}

function heldIn({ slices }: BucketState): number {
  let held = 0;
  for (const slice of slices) held += slice.held;
  return held;
}
