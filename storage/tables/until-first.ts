import type { Env } from "../../bus/env.ts";

/**
 * Retries a change as long as it returns null because another writer was faster. Returns null after a time limit. Each
 * round lets one of the concurrent writers succeed, so all of them finish eventually.
 */
export async function untilFirst<T>(env: Env, change: () => Promise<T | null>): Promise<T | null> {
  const until = env.monotonic() + contendedMsMax;
  for (let attempt = 1; ; attempt++) {
    const done = await change();
    if (done !== null || env.monotonic() >= until) return done;
    const pauseMs = env.random() * Math.min(pauseMsMax, pauseMsFirst * 2 ** attempt);
    await new Promise<void>((resolve) => void env.timer(pauseMs, resolve));
  }
}

/** Max time of the retries. */
const contendedMsMax = 10_000;
/** The pauses are random, up to a bound that doubles. */
const pauseMsFirst = 2;
const pauseMsMax = 256;
