import { SvcError } from "../../bus/errors.ts";
import { systemSql } from "../store/statements.ts";
import type { Scope } from "../store/store.ts";

// The store's clock may be set back: what is to be tried again at a time would then rest for as long as it was set. The latest time that
// was seen is a row; when the clock stands before it, those times are moved back with it, each to now at the earliest.

const selectSeen = systemSql(
  "clock_seen",
  "SELECT :now AS now, (SELECT value FROM counters WHERE name = 'clock') AS seen",
);
const insertSeen = systemSql(
  "clock_seen_insert",
  "INSERT INTO counters (name, value) VALUES ('clock', :now) ON CONFLICT (name) DO NOTHING",
);
const moveSeen = systemSql(
  "clock_seen_move",
  "UPDATE counters SET value = :now WHERE name = 'clock' AND value = CAST(? AS BIGINT)",
);
const sooner = (column: string) => ({
  sqlite: `${column} = max(:now, ${column} - ?)`,
  postgres: `${column} = GREATEST(:now, ${column} - CAST(? AS BIGINT))`,
});
const moveOf = (name: string, table: string, column: string, where: string) => {
  const set = sooner(column);
  const text = (how: string) => `UPDATE ${table} SET ${how} WHERE ${where} ${column} > :now`;
  return systemSql(name, { sqlite: text(set.sqlite), postgres: text(set.postgres) });
};
const moveFibers = moveOf("fibers_move_back", "fibers", "wake_at", "wake_at IS NOT NULL AND");
// What somebody sends is that one's until it says what came of it.
const moveDeliveries = moveOf(
  "deliveries_move_back",
  "deliveries",
  "due_at",
  "state = 'pending' AND claimed_by IS NULL AND",
);
const selectJobsAhead = systemSql(
  "jobs_ahead",
  `SELECT tenant_id, name, schedule, next_run_at FROM jobs
   WHERE next_run_at IS NOT NULL AND next_run_at > :now AND (tenant_id, name) > (?, ?) ORDER BY tenant_id, name LIMIT ?`,
);
const moveJob = systemSql(
  "job_move_back",
  "UPDATE jobs SET next_run_at = ? WHERE tenant_id = ? AND name = ? AND next_run_at = ?",
);

/** A step back that is shorter is none: a clock that is slewed, or another process that has noted a time meanwhile. */
const stepMs = 1_000;
/** Jobs that are read at once. */
const pageRows = 500;

/**
 * Notes the store's time. Where the clock was set back since it was last noted, in this process or one before, retries of durable runs and
 * of deliveries are moved back with it, and jobs to the next time that `nextTime` says. Answers by how many milliseconds it was.
 */
export async function noteClock(store: Scope, nextTime: (schedule: string, after: number) => number): Promise<number> {
  const [row] = await store.read(selectSeen);
  const now = Number(row?.now);
  if (row?.seen === null) {
    await store.write([store.op(insertSeen, [])]);
    return 0;
  }
  const seen = Number(row?.seen);
  const backMs = Math.max(0, seen - now);
  if (backMs > 0 && backMs < stepMs) return 0;
  try {
    // Jobs first, which are where they are to be however often this is done.
    if (backMs > 0) await moveJobs(store, now, nextTime);
    const moves = backMs === 0 ? [] : [store.op(moveFibers, [backMs]), store.op(moveDeliveries, [backMs])];
    await store.write([store.op(moveSeen, [seen], 1), ...moves]);
    return backMs;
  } catch (error) {
    // Another process has noted it.
    if (error instanceof SvcError && error.code === "conflict") return 0;
    throw error;
  }
}

async function moveJobs(store: Scope, now: number, nextTime: Parameters<typeof noteClock>[1]): Promise<void> {
  for (let after = ["", ""]; ; ) {
    const page = await store.read(selectJobsAhead, ...after, pageRows);
    const moved = page.flatMap(({ tenant_id, name, schedule, next_run_at }) => {
      const next = nextTime(String(schedule), now);
      if (next >= Number(next_run_at)) return [];
      return [store.op(moveJob, [next, String(tenant_id), String(name), Number(next_run_at)])];
    });
    if (moved.length > 0) await store.write(moved);
    const last = page.at(-1);
    if (last === undefined || page.length < pageRows) return;
    after = [String(last.tenant_id), String(last.name)];
  }
}
