import type { Env, Timer } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { RateLease } from "../../bus/protocol/limiter.ts";
import type { Scope } from "../../storage/store/store.ts";
import { changeBucketOp, readBucket } from "../../storage/tables/rate-buckets.ts";
import {
  available,
  type BucketState,
  drained,
  fullAt,
  fullBucket,
  isOnly,
  nextTokenMs,
  type Rate,
  settled,
  spareMax,
} from "./bucket.ts";
import { grantMs, PrefetchGrants } from "./prefetch-grants.ts";
import { StoreClock } from "./store-clock.ts";

// One holder's part in a bucket (see bucket.ts). It asks the store when it has nothing in hand: for what waits, and for some more,
// twice as much each time as long as that is used up quickly; so the store is asked once for many requests of a busy caller, and a
// quiet one holds nothing. What it has not spent it gives back before its prefetch ends. A refusal is told from memory.

/** How long a prefetch lasts. */
const prefetchMs = 10_000;
/** How long the store gets to take a change. */
const changeMs = 2_000;
/** How long before its end what is left of it is given back. */
const marginMs = changeMs;
/** How much of what is in hand one grant may be: who has borrowed and does not come back has spent it. */
const grantShare = 1 / 64;
/** What is known of the store's clock and of the bucket may be this old; less where others hold something of it. */
const knownMsMax = 30_000;
const knownBesideOthersMsMax = 1_000;
/** Far more than any prefetch. */
const spareGrowthMax = 2 ** 40;
/** How long a store that does not work is not asked again. */
const awayMs = 1_000;
/** Others may change the bucket meanwhile, but not for ever. */
const attemptsMax = 20;

/** What a holder is made of. */
export interface TokenPrefetchOptions {
  readonly env: Env;
  readonly store: Scope;
  readonly rate: Rate;
  readonly bucket: string;
  /** Names it among all that ever have a prefetch. */
  readonly holder: string;
  /** Told each time that the store could not be asked and the rate is counted in memory. */
  readonly onDegraded: () => void;
  /** Told whether there is something to give back, or to tell the store. */
  readonly onHolding: (isHolding: boolean) => void;
}

interface KnownBucket {
  readonly state: BucketState;
  readonly mark: string;
}

/** A prefetch of one caller's rate, in the memory of one actor. */
export class TokenPrefetch {
  readonly #options: TokenPrefetchOptions;
  readonly #clock: StoreClock;
  /** The bucket as last known; null when it must be read. */
  #known: KnownBucket | null = null;
  #changes = 0;
  #inHand = 0;
  /** Monotonic; from then on nothing in hand may be spent. */
  #endsAt = 0;
  #timer: Timer | null = null;
  readonly #grants = new PrefetchGrants();
  #waiting = 0;
  #asking: Promise<void> | null = null;
  /** How much beside what waits is asked for. */
  #spare = 0;
  #askedAt = Number.NEGATIVE_INFINITY;
  /** Let pass without the store. */
  #owed = 0;
  #awayUntil = Number.NEGATIVE_INFINITY;
  #leaving = false;

  constructor(options: TokenPrefetchOptions) {
    this.#options = options;
    this.#clock = new StoreClock(options.env);
  }

  /** Whether it can be forgotten: what it knows is in the store. */
  get isIdle(): boolean {
    return this.#inHand === 0 && this.#owed === 0 && this.#asking === null;
  }

  /** See `LimiterMessages.lease`. Answers at once unless the store must be asked. Refuses with storage_unavailable. */
  lease(want: number): RateLease | Promise<RateLease> {
    return this.#fromMemory(want) ?? this.#wait(want);
  }

  /** Gives back what is in hand, and holds nothing from now on that does not wait. Never rejects. */
  async leave(): Promise<void> {
    this.#leaving = true;
    await this.#settle();
  }

  #fromMemory(want: number): RateLease | null {
    const now = this.#options.env.monotonic();
    if (this.#inHand > 0 && now >= this.#endsAt) this.#inHand = 0;
    if (this.#inHand > 0) return this.#hand(want, now);
    // Who comes while others wait would pass them by.
    return this.#asking === null ? this.#refusal(now) : null;
  }

  async #wait(want: number): Promise<RateLease> {
    for (;;) {
      this.#waiting++;
      try {
        this.#asking ??= this.#ask().finally(() => {
          this.#asking = null;
        });
        await this.#asking;
      } finally {
        this.#waiting--;
      }
      const lease = this.#fromMemory(want);
      if (lease) return lease;
    }
  }

  #hand(want: number, now: number): RateLease {
    const spare = this.#inHand - this.#waiting;
    const lent = Math.max(0, Math.min(want - 1, Math.floor(spare * grantShare)));
    this.#inHand -= 1 + lent;
    if (lent > 0) this.#grants.grant(lent, now);
    return { granted: 1 + lent, forMs: lent > 0 ? Math.min(grantMs, this.#endsAt - now) : 0, retryAfterSeconds: 0 };
  }

  /** Null when there may be a token in the store. */
  #refusal(now: number): RateLease | null {
    const { rate } = this.#options;
    if (this.#known === null || this.#isStale(now)) return null;
    const state = drained(this.#known.state, rate, this.#clock.earliest(now));
    const used = { ...state, level: state.level + this.#owed * rate.windowMs };
    if (available(used, rate) > 0) return null;
    return { granted: 0, forMs: 0, retryAfterSeconds: Math.max(1, Math.ceil(nextTokenMs(used, rate) / 1000)) };
  }

  /** Whether the bucket must be read again: clocks drift, and what other holders have may come back before its time. */
  #isStale(now: number): boolean {
    if (this.#known === null || now < this.#awayUntil) return false;
    const age = this.#clock.age(now);
    return age > knownMsMax || (age > knownBesideOthersMsMax && !isOnly(this.#known.state, this.#options.holder));
  }

  /** Takes what waits and something more, or learns that there is nothing. */
  async #ask(): Promise<void> {
    const now = this.#options.env.monotonic();
    if (now < this.#awayUntil) {
      this.#takeUnasked();
      return;
    }
    const isBusy = now - this.#askedAt < prefetchMs && !this.#leaving;
    this.#spare = isBusy ? Math.min(Math.max(1, this.#spare * 2), spareGrowthMax) : 0;
    this.#askedAt = now;
    if (this.#isStale(now)) await this.#read().catch((error: unknown) => this.#storeIsAway(error));
    if (this.#awayUntil > now) return;
    await this.#change((free, alone) => {
      const taken = Math.min(free, this.#waiting);
      this.#spare = Math.min(this.#spare, spareMax(free - taken, alone));
      return taken === 0 ? null : { taken: taken + this.#spare, held: this.#spare };
    }).catch((error: unknown) => this.#storeIsAway(error));
  }

  /** Goes on with what was known last; throws where that is nothing, or where it is not the store that does not work. */
  #storeIsAway(error: unknown): void {
    if (SvcError.from(error).code !== "storage_unavailable") throw error;
    this.#awayUntil = this.#options.env.monotonic() + awayMs;
    if (this.#known === null) throw error;
    this.#takeUnasked();
  }

  /** Lets pass what the bucket had when it was last seen. */
  #takeUnasked(): void {
    const { env, rate, onDegraded } = this.#options;
    if (this.#known === null) throw new SvcError("storage_unavailable");
    onDegraded();
    const now = env.monotonic();
    const free = available(drained(this.#known.state, rate, this.#clock.earliest(now)), rate) - this.#owed;
    const taken = Math.max(0, Math.min(free, this.#waiting));
    if (taken === 0) return;
    this.#owed += taken;
    this.#inHand += taken;
    this.#endsAt = now + prefetchMs;
    this.#settleAt(now + 2 * awayMs);
  }

  /** What is left in hand is given back, and what was let pass unasked is told, at this time of the monotonic clock. */
  #settleAt(at: number): void {
    const { env, onHolding } = this.#options;
    if (this.#timer) return;
    onHolding(true);
    this.#timer = env.timer(Math.max(0, at - env.monotonic()), () => {
      this.#timer = null;
      const now = env.monotonic();
      // Another prefetch may have come meanwhile.
      const isEarly = this.#inHand > 0 && now < this.#endsAt - marginMs;
      if (isEarly) this.#settleAt(this.#endsAt - marginMs);
      else void this.#settle();
    });
  }

  /**
   * Tells the store what is spent and what is not. What cannot be given back counts as spent; what cannot be told at the end of the
   * process is forgotten with it. Never rejects.
   */
  async #settle(): Promise<void> {
    const { env, holder, onHolding } = this.#options;
    this.#timer?.cancel();
    this.#timer = null;
    // What is asked for at this moment is spent by those who wait for it.
    while (this.#asking !== null) await this.#asking.catch(() => {});
    const unspent = env.monotonic() < this.#endsAt ? this.#inHand : 0;
    this.#inHand = 0;
    this.#spare = Math.max(0, this.#spare - unspent);
    const telling = this.#change((_free, _alone, state) => {
      const isHolder = state.slices.some((slice) => slice.holder === holder);
      return unspent === 0 && !isHolder ? null : { taken: -unspent, held: 0 };
    });
    // Who comes meanwhile waits for it, and must not fail with it.
    this.#asking = telling
      .catch(() => {})
      .finally(() => {
        this.#asking = null;
      });
    await this.#asking;
    if (this.#owed > 0 && !this.#leaving) this.#settleAt(env.monotonic() + 2 * awayMs);
    else {
      this.#owed = 0;
      if (this.isIdle) onHolding(false);
    }
  }

  /**
   * Changes the bucket by what `decide` says of what is free, in one guarded update: again when another was faster. What is taken is in
   * hand then. Writes nothing when there is nothing to say. Refuses with storage_unavailable.
   */
  async #change(
    decide: (
      free: number,
      isOnly: boolean,
      state: BucketState,
    ) => { readonly taken: number; readonly held: number } | null,
  ): Promise<void> {
    const { env, store, rate, bucket, holder } = this.#options;
    for (let attempt = 1; attempt <= attemptsMax; attempt++) {
      const known = this.#known ?? (await this.#read());
      const sentAt = env.monotonic();
      const state = drained(known.state, rate, this.#clock.earliest(sentAt));
      const owed = this.#owed;
      const free = Math.max(0, available(state, rate) - owed);
      const decided = decide(free, isOnly(state, holder), state);
      if (decided === null && owed === 0) return;
      const { taken, held } = decided ?? { taken: 0, held: 0 };
      const changed = settled(state, holder, {
        taken: taken + owed,
        held: held + this.#grants.out(sentAt),
        until: this.#clock.latest(sentAt) + prefetchMs,
      });
      const mark = `${holder}:${++this.#changes}`;
      const change = { bucket, state: JSON.stringify(changed), mark, full_at: fullAt(changed, rate) };
      try {
        const [rows] = await store.write([changeBucketOp(store, change, known.mark)], changeMs);
        this.#clock.heard(rows?.[0]?.now as number, sentAt);
      } catch (error) {
        if (SvcError.from(error).code !== "conflict") throw error;
        await this.#read();
        continue;
      }
      this.#known = { state: changed, mark };
      this.#owed -= owed;
      if (taken <= 0) return;
      this.#inHand += taken;
      this.#endsAt = sentAt + prefetchMs;
      if (held > 0) this.#settleAt(this.#endsAt - marginMs);
      return;
    }
    throw new SvcError("storage_unavailable");
  }

  /** Sees the bucket as it is. What was known stays when the store does not answer. */
  async #read(): Promise<KnownBucket> {
    const { env, store, rate, bucket } = this.#options;
    const askedAt = env.monotonic();
    const { state, mark, now } = await readBucket(store, bucket);
    this.#clock.heard(now, askedAt);
    this.#known = { state: state === null ? fullBucket(rate, now) : (JSON.parse(state) as BucketState), mark };
    return this.#known;
  }
}
