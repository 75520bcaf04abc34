import { int, seconds } from "./setting.ts";

/** Runs that outlive their process. */
export const durableSettings = {
  durableConcurrency: int("FIBER_CONCURRENCY", 8, [1, 1_024], "Durable runs that are at work at once in one process."),
  durablePollSeconds: seconds(
    "FIBER_POLL_SECONDS",
    1,
    [0, 60],
    "How often durable runs are looked for that are due and that nobody was told of; with 0 nobody is told of any, and they are looked for once a minute.",
  ),
  durableMaxAttempts: int(
    "FIBER_MAX_ATTEMPTS",
    5,
    [1, 100],
    "How often in a row a step of a durable run may fail before the run is dead; between two tries it waits a minute, then twice as long, up to an hour.",
  ),
  hibernateAfterSeconds: int(
    "HIBERNATE_AFTER_SECONDS",
    300,
    [1, 86_400],
    "How long a durable run may wait behind its last step when its manifest has no resume_token_ttl_seconds.",
  ),
};
