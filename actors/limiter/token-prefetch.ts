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

// One holder of a bucket (see bucket.ts). If it has no tokens, it asks the store for those that requests wait for, plus a
// prefetch that doubles as long as it is used up quickly. So a busy caller needs few store calls, and an idle one holds no
// tokens. It returns unspent tokens before its prefetch expires. Refusals are answered from memory.

/** Lifetime of a prefetch. */
const prefetchMs = 10_000;
/** Max time for the store to accept a change. */
const changeMs = 2_000;
/** Unspent tokens are returned this long before the prefetch expires. */
const marginMs = changeMs;
/** Max share of the unspent tokens in one grant: a thread that does not return its grant has spent it. */
const grantShare = 1 / 64;
/** Max age of the cached bucket and clock; shorter if other holders have prefetches. */
const knownMsMax = 30_000;
const knownBesideOthersMsMax = 1_000;
/** Far more than any prefetch. */
const spareGrowthMax = 2 ** 40;
/** Pause before an unavailable store is asked again. */
const awayMs = 1_000;
/** Max attempts of an update that conflicts with other holders. */
const attemptsMax = 20;

/** Options of a token prefetch. */
export interface TokenPrefetchOptions {
  readonly env: Env;
  readonly store: Scope;
  readonly rate: Rate;
  readonly bucket: string;
  /** Unique among all holders. */
  readonly holder: string;
  /** Called whenever the store is unavailable and the rate is counted in memory. */
  readonly onDegraded: () => void;
  /** Called with true while there are tokens to return or spent ones to report. */
  readonly onHolding: (isHolding: boolean) => void;
}

interface KnownBucket {
  readonly state: BucketState;
  readonly mark: string;
}

/** The prefetched tokens of one caller's rate, in the memory of one actor. */
export class TokenPrefetch {
  readonly #options: TokenPrefetchOptions;
  readonly #clock: StoreClock;
  /** The last known bucket; null if it must be read. */
  #known: KnownBucket | null = null;
  #changes = 0;
  #inHand = 0;
  /** Monotonic milliseconds after which the tokens in hand may not be spent. */
  #endsAt = 0;
  #timer: Timer | null = null;
  readonly #grants = new PrefetchGrants();
  #waiting = 0;
  #asking: Promise<void> | null = null;
  /** Number of tokens to prefetch. */
  #spare = 0;
  #askedAt = Number.NEGATIVE_INFINITY;
  /** Tokens granted without the store and not yet reported to it. */
  #owed = 0;
  #awayUntil = Number.NEGATIVE_INFINITY;
  #leaving = false;

  constructor(options: TokenPrefetchOptions) {
    this.#options = options;
    this.#clock = new StoreClock(options.env);
  }

  /** True if the holder can be dropped from memory, because the store has its state. */
  get isIdle(): boolean {
    return this.#inHand === 0 && this.#owed === 0 && this.#asking === null;
  }

  /** See `LimiterMessages.lease`. Synchronous unless the store must be asked. Refuses with storage_unavailable. */
  lease(want: number): RateLease | Promise<RateLease> {
    return this.#fromMemory(want) ?? this.#wait(want);
  }

  /** Returns the unspent tokens and stops prefetching. Never rejects. */
  async leave(): Promise<void> {
    this.#leaving = true;
    await this.#settle();
  }

  #fromMemory(want: number): RateLease | null {
    const now = this.#options.env.monotonic();
    if (this.#inHand > 0 && now >= this.#endsAt) this.#inHand = 0;
    if (this.#inHand > 0) return this.#hand(want, now);
    // While others wait, a new request must wait too, or it would overtake them.
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

  /** Returns null if the store may have a token. */
  #refusal(now: number): RateLease | null {
    const { rate } = this.#options;
    if (this.#known === null || this.#isStale(now)) return null;
    const state = drained(this.#known.state, rate, this.#clock.earliest(now));
    const used = { ...state, level: state.level + this.#owed * rate.windowMs };
    if (available(used, rate) > 0) return null;
    return { granted: 0, forMs: 0, retryAfterSeconds: Math.max(1, Math.ceil(nextTokenMs(used, rate) / 1000)) };
  }

  /** True if the bucket must be read again: clocks drift, and other holders may return tokens early. */
  #isStale(now: number): boolean {
    if (this.#known === null || now < this.#awayUntil) return false;
    const age = this.#clock.age(now);
    return age > knownMsMax || (age > knownBesideOthersMsMax && !isOnly(this.#known.state, this.#options.holder));
  }

  /** Takes tokens for waiting requests plus a prefetch, or learns that there are none. */
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

  /** Continues with the last known bucket. Throws if there is none, or if the error is not storage_unavailable. */
  #storeIsAway(error: unknown): void {
    if (SvcError.from(error).code !== "storage_unavailable") throw error;
    this.#awayUntil = this.#options.env.monotonic() + awayMs;
    if (this.#known === null) throw error;
    this.#takeUnasked();
  }

  /** Grants the tokens that the last known bucket had. */
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

  /** Schedules the settlement with the store at a monotonic time. */
  #settleAt(at: number): void {
    const { env, onHolding } = this.#options;
    if (this.#timer) return;
    onHolding(true);
    this.#timer = env.timer(Math.max(0, at - env.monotonic()), () => {
      this.#timer = null;
      const now = env.monotonic();
      // A new prefetch may have replaced the old one.
      const isEarly = this.#inHand > 0 && now < this.#endsAt - marginMs;
      if (isEarly) this.#settleAt(this.#endsAt - marginMs);
      else void this.#settle();
    });
  }

  /**
   * Returns unspent tokens and reports spent ones to the store. Tokens that cannot be returned count as spent. At shutdown,
   * unreported ones are lost. Never rejects.
   */
  async #settle(): Promise<void> {
    const { env, holder, onHolding } = this.#options;
    this.#timer?.cancel();
    this.#timer = null;
    // Wait for a request in progress; its tokens belong to the requests that wait for it.
    while (this.#asking !== null) await this.#asking.catch(() => {});
    const unspent = env.monotonic() < this.#endsAt ? this.#inHand : 0;
    this.#inHand = 0;
    this.#spare = Math.max(0, this.#spare - unspent);
    const telling = this.#change((_free, _alone, state) => {
      const isHolder = state.slices.some((slice) => slice.holder === holder);
      return unspent === 0 && !isHolder ? null : { taken: -unspent, held: 0 };
    });
    // New requests wait for the settlement but do not fail with it.
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
   * Updates the bucket by the result of `decide` in one guarded statement; retries after a conflict. Taken tokens are then in
   * hand. Writes nothing if there is no change. Refuses with storage_unavailable.
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

  /** Reads the bucket. If the store does not respond, the cached one stays. */
  async #read(): Promise<KnownBucket> {
    const { env, store, rate, bucket } = this.#options;
    const askedAt = env.monotonic();
    const { state, mark, now } = await readBucket(store, bucket);
    this.#clock.heard(now, askedAt);
    this.#known = { state: state === null ? fullBucket(rate, now) : (JSON.parse(state) as BucketState), mark };
    return this.#known;
  }
}
