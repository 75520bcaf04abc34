import type { Metrics } from "../../governance/metrics.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { Store } from "../../storage/store/store.ts";
import { defineActor } from "../runtime/define.ts";
import { TokenPrefetch } from "./token-prefetch.ts";

/** What limiters need beside their state. */
export interface LimiterDeps {
  readonly settings: Pick<Settings, "rateLimit" | "rateLimitWindowSeconds">;
  readonly store: Pick<Store, "system">;
  readonly metrics: Pick<Metrics, "count">;
  /** How this thread names what it owns. */
  readonly owner: string;
  /** Those that have something in hand, which is given back when the process ends. */
  readonly tokenPrefetches: Set<TokenPrefetch>;
}

/**
 * Owns the part of this process in the request rate of one tenant, or of one client address. What it knows may be forgotten: the
 * bucket is in the store.
 */
export const limiterActor = defineActor<"limiter", TokenPrefetch, LimiterDeps>({
  kind: "limiter",
  mailboxLimit: 4096,
  interleaves: ["lease"],
  reserved: [],
  passivateAfterMs: 300_000,
  load: ({ key, deps, env }) => {
    const { settings, store, metrics, owner, tokenPrefetches } = deps;
    const holder: TokenPrefetch = new TokenPrefetch({
      env,
      store: store.system,
      rate: { limit: settings.rateLimit, windowMs: settings.rateLimitWindowSeconds * 1000 },
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
