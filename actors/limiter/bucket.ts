// A token bucket of which several holders may spend at the same time: the arithmetic, on plain values.
//
// A holder takes a prefetch: tokens that it may spend until a time. They count as spent from the moment they are taken, but what
// nobody has spent yet does not flow back: as long as a prefetch lasts, the level does not sink below what its holder may have in
// hand. So what all holders together let pass never exceeds the limit and what time brings, in any span of time. A holder that
// comes back says what it still has in hand; a holder that does not (it was killed) has spent its prefetch, as far as anybody
// knows, at the end of it.

/** How much may pass: `limit` at once, refilled evenly over the window. */
export interface Rate {
  readonly limit: number;
  readonly windowMs: number;
}

/** What one holder may have in hand. */
export interface Slice {
  readonly holder: string;
  readonly held: number;
  /** Epoch milliseconds of the store: nothing of it is spent from then on. */
  readonly until: number;
}

/** What is used of a bucket. */
export interface BucketState {
  /** So counted that a token is `windowMs` and every millisecond brings `limit`: nothing is lost to fractions. */
  readonly level: number;
  /** Epoch milliseconds of the store. */
  readonly at: number;
  /** Of those that had not ended at that time, in the order of their ends. */
  readonly slices: readonly Slice[];
  /** What a token was worth when this was written. */
  readonly windowMs: number;
}

/** How much of what is left one prefetch may take. */
const prefetchShare = 1 / 64;
/** The same for the only holder: nobody else misses it, and a small limit is not written for each request. */
const onlyShare = 1 / 4;
const onlyMax = 16;

/** A bucket of which nothing is used. */
export function fullBucket({ windowMs }: Rate, now: number): BucketState {
  return { level: 0, at: now, slices: [], windowMs };
}

/** How far a time that was told may lie behind one that another holder was told: answers of the store take seconds at most. */
const behindMsMax = 60_000;

/**
 * The bucket as it is at a later time. An earlier one changes nothing, unless the store's clock was set back by more than answers may be
 * late: then the bucket is taken to that time as it is. Otherwise nothing would flow back for as long as the clock was set back.
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

/** Tokens that can be taken now from a bucket that is drained to now. */
export function available({ level }: BucketState, { limit, windowMs }: Rate): number {
  return Math.max(0, Math.floor((limit * windowMs - level) / windowMs));
}

/** Milliseconds until a token can be taken, if nobody takes or gives back any meanwhile. */
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

/** How much a holder may take beside what it spends at once: a sixty-fourth of what is left, and nothing near the end. */
export function spareMax(left: number, isOnly: boolean): number {
  const share = Math.floor(left * prefetchShare);
  return isOnly ? Math.max(share, Math.min(onlyMax, Math.floor(left * onlyShare))) : share;
}

/** Whether no other holder has a prefetch. */
export function isOnly({ slices }: BucketState, holder: string): boolean {
  return slices.every((slice) => slice.holder === holder);
}

/** What is to be written of a holder. */
export interface Settlement {
  /** Tokens that it takes, or gives back where it is negative. */
  readonly taken: number;
  /** What it then has in hand; the rest of what it has ever taken is spent. */
  readonly held: number;
  readonly until: number;
}

/** The bucket after a holder has taken or given back. `state` is drained to now. */
export function settled(state: BucketState, holder: string, { taken, held, until }: Settlement): BucketState {
  const others = state.slices.filter((slice) => slice.holder !== holder);
  const slices = held > 0 ? [...others, { holder, held, until }].sort((a, b) => a.until - b.until) : others;
  return { ...state, level: Math.max(0, state.level + taken * state.windowMs), slices };
}

/** The time of the store from which on nothing is used of the bucket, if nobody takes any meanwhile. */
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
