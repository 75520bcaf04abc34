import { rateOfKey } from "../../bus/protocol/limiter.ts";
import type { Metrics } from "../../governance/metrics.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { Store } from "../../storage/store/store.ts";
import { defineActor } from "../runtime/define.ts";
import { TokenPrefetch } from "./token-prefetch.ts";

/** Dependencies of the limiter actor. */
export interface LimiterDeps {
  readonly settings: Pick<Settings, "rateLimit" | "rateLimitWindowSeconds">;
  readonly store: Pick<Store, "system">;
  readonly metrics: Pick<Metrics, "count">;
  /** The owner mark of this thread. */
  readonly owner: string;
  /** Holders with unspent tokens, which are returned when the process stops. */
  readonly tokenPrefetches: Set<TokenPrefetch>;
}

/**
 * Owns this process's share of the request rate of one tenant or client address. Its state is a cache: the bucket is in the
 * store.
 */
export const limiterActor = defineActor<"limiter", TokenPrefetch, LimiterDeps>({
  kind: "limiter",
  mailboxLimit: 4096,
  interleaves: ["lease"],
  reserved: [],
  passivateAfterMs: 300_000,
  load: ({ key, deps, env }) => {
    const { settings, store, metrics, owner, tokenPrefetches } = deps;
    const rate = rateOfKey(key) ?? { limit: settings.rateLimit, windowSeconds: settings.rateLimitWindowSeconds };
    const holder: TokenPrefetch = new TokenPrefetch({
      env,
      store: store.system,
      rate: { limit: rate.limit, windowMs: rate.windowSeconds * 1000 },
      bucket: key,
      holder: `${owner}:${env.id()}`,
      onDegraded: () =>
        metrics.count("svc_control_degraded_total", { control: "rate_limit", manifest_id: "", reason: "store" }),
      onHolding: (isHolding) => void (isHolding ? tokenPrefetches.add(holder) : tokenPrefetches.delete(holder)),
    });
    return holder;
  },
  idle: (holder) => holder.isIdle,
  crashed: () => {},
  on: {
    lease: (holder, { want }) => holder.lease(want),
  },
});
