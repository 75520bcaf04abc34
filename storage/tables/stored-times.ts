import { systemSql } from "../store/statements.ts";
import type { Scope } from "../store/store.ts";
import { backOffMs, longestBackOffMs } from "./back-off.ts";

// Corrects due times that a clock running ahead has stored. The sweep recomputes them from the schedule of a job or the
// failure count of a retry. It needs no record of the wrong clock. Deadlines are unchanged.

/** Rows of one read: computing the next time of one schedule takes 50 µs. */
const pageRows = 200;
/** Rows changed in one batch. */
const batchRows = 500;

const selectJobs = systemSql(
  "jobs_with_times",
  `SELECT tenant_id, name, schedule, next_run_at, :now AS now FROM jobs
   WHERE next_run_at IS NOT NULL AND (tenant_id, name) > (?, ?) ORDER BY tenant_id, name LIMIT ?`,
);
const moveJob = systemSql(
  "job_move",
  "UPDATE jobs SET next_run_at = ? WHERE tenant_id = ? AND name = ? AND next_run_at = ?",
);
const selectRuns = systemSql(
  "fibers_ahead",
  `SELECT tenant_id, run_id AS id, attempts, wake_at AS at, :now AS now FROM fibers
   WHERE wake_at IS NOT NULL AND wake_at > :now + ${longestBackOffMs} LIMIT ?`,
);
const moveRun = systemSql(
  "fiber_move",
  "UPDATE fibers SET wake_at = ? WHERE tenant_id = ? AND run_id = ? AND wake_at = ?",
);
// Excludes claimed deliveries, which belong to their sender until it reports the outcome.
const selectDeliveries = systemSql(
  "deliveries_ahead",
  `SELECT tenant_id, id, attempts, due_at AS at, :now AS now FROM deliveries
   WHERE state = 'pending' AND claimed_by IS NULL AND due_at > :now + ${longestBackOffMs} LIMIT ?`,
);
const moveDelivery = systemSql(
  "delivery_move",
  "UPDATE deliveries SET due_at = ? WHERE tenant_id = ? AND id = ? AND due_at = ? AND claimed_by IS NULL",
);

/** Returns the first time of a schedule after `after`, in epoch milliseconds. */
export type NextTime = (schedule: string, after: number) => number;

/** Numbers of corrected times. */
export interface MovedTimes {
  readonly jobs: number;
  readonly runs: number;
  readonly deliveries: number;
}

/**
 * Corrects times that are further ahead than possible: next times of jobs, and retries of durable runs and webhooks.
 */
export async function moveTimesAhead(store: Scope, nextTime: NextTime): Promise<MovedTimes> {
  return {
    jobs: await moveJobs(store, nextTime, (at, next) => at > next),
    runs: await moveRetries(store, selectRuns, moveRun),
    deliveries: await moveRetries(store, selectDeliveries, moveDelivery),
  };
}

/** Sets every job to the next time of its schedule, which skips missed runs. Returns the number of changed jobs. */
export function skipMissedTimes(store: Scope, nextTime: NextTime): Promise<number> {
  return moveJobs(store, nextTime, (at, next) => at !== next);
}

async function moveJobs(
  store: Scope,
  nextTime: NextTime,
  isMoved: (at: number, next: number) => boolean,
): Promise<number> {
  let moved = 0;
  for (let after = ["", ""]; ; ) {
    const page = await store.read(selectJobs, ...after, pageRows);
    const ops = page.flatMap(({ tenant_id, name, schedule, next_run_at, now }) => {
      const next = nextTime(String(schedule), Number(now));
      if (!isMoved(Number(next_run_at), next)) return [];
      return [store.op(moveJob, [next, String(tenant_id), String(name), Number(next_run_at)])];
    });
    if (ops.length > 0) await store.write(ops);
    moved += ops.length;
    const last = page.at(-1);
    if (last === undefined || page.length < pageRows) return moved;
    after = [String(last.tenant_id), String(last.name)];
  }
}

async function moveRetries(store: Scope, select: typeof selectRuns, move: typeof moveRun): Promise<number> {
  let moved = 0;
  for (;;) {
    const page = await store.readLong(select, batchRows);
    const ops = page.map(({ tenant_id, id, attempts, at, now }) =>
      store.op(move, [Number(now) + backOffMs(Number(attempts)), String(tenant_id), String(id), Number(at)]),
    );
    if (ops.length > 0) await store.write(ops);
    moved += ops.length;
    if (page.length < batchRows) return moved;
  }
}
