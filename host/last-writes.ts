import type { Env } from "../bus/env.ts";

/**
 * How long the end of a process waits for a store that does not answer to take what waits in its memory: rows of the audit, parts of
 * budgets. Whoever stops the process would else end it before.
 */
const lastWritesMs = 3_000;

/** Whether `work` is done in time; what it comes to otherwise is nobody's matter any more. */
export async function isWrittenInTime(env: Env, work: readonly (Promise<unknown> | undefined)[]): Promise<boolean> {
  const { promise: patience, resolve } = Promise.withResolvers<boolean>();
  const timer = env.timer(lastWritesMs, () => resolve(false));
  const written = Promise.all(work).then(
    (all) => all.every((each) => each !== false),
    () => false,
  );
  return Promise.race([written, patience]).finally(() => timer.cancel());
}
