import { systemSql } from "../store/statements.ts";
import type { Scope } from "../store/store.ts";

// What operators watch of durable runs: how many there are that are not over, and how long the oldest of what waits has waited.

/** Runs that are looked at for one answer: with more than that the figures are too low, and high enough to be told by. */
const runsMax = 100_000;

/** How much is to be done. Ages are milliseconds, 0 where there is nothing. */
export interface Backlog {
  /** Accepted, and not begun. */
  readonly queued: number;
  readonly running: number;
  /** Put aside. */
  readonly parked: number;
  /** Of the oldest run that is not over. */
  readonly oldestRunMs: number;
  /** Of the run that is due and has waited longest to be taken up. */
  readonly oldestDueMs: number;
  /** Of the oldest question that nobody has answered. */
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

/** What is to be done now. */
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
