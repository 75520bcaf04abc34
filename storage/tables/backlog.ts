import { systemSql } from "../store/statements.ts";
import type { Scope } from "../store/store.ts";

// Metrics of durable runs for operators: the number of open ones, and the ages of the oldest waiting items.

/** Max runs that one query counts. Above that the numbers are too low, but high enough to show the problem. */
const runsMax = 100_000;

/** The pending work. Ages are in milliseconds, 0 if there is none. */
export interface Backlog {
  /** Runs that are accepted, but not started. */
  readonly queued: number;
  readonly running: number;
  /** Suspended runs. */
  readonly parked: number;
  /** Age of the oldest open run. */
  readonly oldestRunMs: number;
  /** Time since the due time of the run that has been due longest. */
  readonly oldestDueMs: number;
  /** Age of the oldest open wait. */
  readonly oldestWaitMs: number;
}

const selectRuns = systemSql(
  "backlog_runs",
  `SELECT r.status, COUNT(*) AS runs, :now - MIN(f.accepted_at) AS oldest, COALESCE(MAX(:now - f.wake_at), 0) AS due
   FROM (SELECT run_key, accepted_at, wake_at FROM fibers WHERE ended_at IS NULL AND wake_at IS NULL
     UNION ALL SELECT run_key, accepted_at, wake_at FROM fibers WHERE wake_at IS NOT NULL LIMIT ?) f
   JOIN runs r ON r.run_key = f.run_key GROUP BY r.status`,
);
const selectOldestWait = systemSql(
  "backlog_oldest_wait",
  "SELECT :now - opened_at AS age FROM waits WHERE state = 'open' ORDER BY opened_at LIMIT 1",
);

/** Returns the current backlog. */
export async function backlog(store: Scope): Promise<Backlog> {
  const [rows, [wait]] = await Promise.all([store.readLong(selectRuns, runsMax), store.read(selectOldestWait)]);
  const of = (status: string) => Number(rows.find((row) => row.status === status)?.runs ?? 0);
  const longest = (name: "oldest" | "due") => Math.max(0, ...rows.map((row) => Number(row[name])));
  return {
    queued: of("accepted"),
    running: of("running"),
    parked: of("waiting"),
    oldestRunMs: longest("oldest"),
    oldestDueMs: longest("due"),
    oldestWaitMs: Math.max(0, Number(wait?.age ?? 0)),
  };
}
