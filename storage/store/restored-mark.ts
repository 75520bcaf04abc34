/** The row of `counters` that a restore leaves, for the first server that starts on it: see storage/tables/held-runs.ts. */
export const restoredMark = {
  name: "restored",
  /** Open durable runs are to be held. */
  held: 1,
  /** They are to go on at once. */
  resumed: 2,
} as const;

/** Leaves the mark. `$1` and `$2` are its name and value. */
export const markStatement =
  "INSERT INTO counters (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";

/** Counts the durable runs that are not over. */
export const countOpenStatement = "SELECT COUNT(*) AS open FROM fibers WHERE ended_at IS NULL";
