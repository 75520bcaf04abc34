/**
 * The row of `counters` that a restore writes for the first server that starts on the database; see
 * storage/tables/held-runs.ts.
 */
export const restoredMark = {
  name: "restored",
  /** Open durable runs are held. */
  held: 1,
  /** Open durable runs resume at once. */
  resumed: 2,
} as const;

/** Writes the mark. `$1` and `$2` are its name and value. */
export const markStatement =
  "INSERT INTO counters (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";

/** Counts the durable runs that have not ended. */
export const countOpenStatement = "SELECT COUNT(*) AS open FROM fibers WHERE ended_at IS NULL";
