import { int, seconds } from "./setting.ts";

/** Settings of durable runs, which outlive their process. */
export const durableSettings = {
  durableConcurrency: int(
    "FIBER_CONCURRENCY",
    8,
    [1, 1_024],
    "Durable runs that work at the same time in one process.",
  ),
  durablePollSeconds: seconds(
    "FIBER_POLL_SECONDS",
    1,
    [0, 60],
    "Interval of the search for due durable runs without a hint; 0 sends no hints and searches once a minute.",
  ),
  durableMaxAttempts: int(
    "FIBER_MAX_ATTEMPTS",
    5,
    [1, 100],
    "Failures of one step in a row before a durable run is dead; the pauses between tries start at a minute and double up to an hour.",
  ),
  hibernateAfterSeconds: int(
    "HIBERNATE_AFTER_SECONDS",
    300,
    [1, 86_400],
    "Maximum wait of a durable run after its last step, if its manifest has no resume_token_ttl_seconds.",
  ),
};
