import type { Settings } from "../../governance/settings/settings.ts";
import { defineActor } from "../runtime/define.ts";
import { TokenBucket } from "./bucket.ts";

/** What limiters need beside their state. */
export interface LimiterDeps {
  readonly settings: Pick<Settings, "rateLimit" | "rateLimitWindowSeconds">;
}

/** Owns the request rate of one tenant, or of one client address. What it knows may be forgotten: the bucket starts full. */
export const limiterActor = defineActor<"limiter", TokenBucket, LimiterDeps>({
  kind: "limiter",
  mailboxLimit: 4096,
  interleaves: [],
  reserved: [],
  passivateAfterMs: 300_000,
  load: ({ deps, env }) => new TokenBucket(deps.settings.rateLimit, deps.settings.rateLimitWindowSeconds, env.now()),
  idle: () => true,
  crashed: () => {},
  on: {
    lease: (bucket, { want }, { env }) => bucket.lease(want, env.now()),
  },
});
