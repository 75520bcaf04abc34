import type { Env } from "../bus/env.ts";

/**
 * Max wait at shutdown for a store that does not respond, to write buffered audit rows and return prefetched rate-limit tokens.
 * A supervisor would kill a process that waits longer.
 */
const lastWritesMs = 3_000;

/** True if `work` succeeds in time. Late results are ignored. */
export async function isWrittenInTime(env: Env, work: readonly (Promise<unknown> | undefined)[]): Promise<boolean> {
  const { promise: patience, resolve } = Promise.withResolvers<boolean>();
  const timer = env.timer(lastWritesMs, () => resolve(false));
  const written = Promise.all(work).then(
    (all) => all.every((each) => each !== false),
    () => false,
  );
  return Promise.race([written, patience]).finally(() => timer.cancel());
}
