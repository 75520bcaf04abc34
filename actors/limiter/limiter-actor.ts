import type { ActorDeps } from "../run/deps.ts";
import { defineActor } from "../runtime/define.ts";
import { TokenBucket } from "./bucket.ts";

/** Owns the request rate of one tenant, or of one client address. What it knows may be forgotten: the bucket starts full. */
export const limiterActor = defineActor<"limiter", TokenBucket, ActorDeps>({
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
