import type { Env } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { Cancellation } from "../../runtime/cancellation.ts";

/** Milliseconds before work that failed is done again; doubled after each attempt. */
const againMs = 250;
/** Max attempts. Their pauses together exceed the time for which a request waits for the store. */
const triesMax = 7;

/** True if a refusal is temporary and independent of the run, so that the same request may succeed later. */
export function isPassing(code: SvcError["code"]): boolean {
  return ["storage_unavailable", "actor_lost", "deadline_exceeded", "mailbox_full"].includes(code);
}

/** True if a request was refused because a queue or memory was full, or by a freeze. Nothing was done then, and no step has failed. */
export function isOverload(code: SvcError["code"]): boolean {
  return code === "mailbox_full" || code === "frozen";
}

/** Repeats work that fails for a passing reason, up to `triesMax` times. Resolves to null if the run is stopped in a pause. */
export async function patiently<T>(
  work: () => Promise<T>,
  env: Pick<Env, "timer">,
  cancellation: Cancellation,
): Promise<T | null> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (tries === triesMax || !isPassing(SvcError.from(error).code)) throw error;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = env.timer(againMs * 2 ** (tries - 1), resolve);
    await cancellation.orStopped(promise).finally(() => timer.cancel());
    if (cancellation.cancelled) return null;
  }
}
