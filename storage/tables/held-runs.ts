import { restoredMark } from "../store/restored-mark.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Store, TenantStore } from "../store/store.ts";
import { type NextTime, skipMissedTimes } from "./stored-times.ts";

// A backup is older than what its open runs have done since: what they are at may be done already. So the runs of a database that was
// restored are held: nothing takes them up, and their time does not pass, until somebody lets them go. What was restored may be of an
// older schema, so that the restore leaves a mark, and the first server that has the schema of its version carries it out.

const selectMark = systemSql("restored_mark", "SELECT value FROM counters WHERE name = ?");
const deleteMark = systemSql("restored_mark_delete", "DELETE FROM counters WHERE name = ?");
const holdAll = systemSql(
  "fibers_hold",
  "UPDATE fibers SET held = 1 WHERE ended_at IS NULL AND held = 0 RETURNING run_id",
);
const selectHeld = tenantSql(
  "fibers_held_page",
  `SELECT f.run_id, r.manifest, r.parent_run_id FROM fibers f JOIN runs r ON r.run_key = f.run_key
   WHERE f.tenant_id = :tenant AND f.held = 1 AND f.run_id > ? ORDER BY f.run_id LIMIT ?`,
);
const latest = (of: string) => `expires_at = ${of}(expires_at, :now + ttl_ms)`;
const released = (expires: string) =>
  `UPDATE fibers SET held = 0, ${expires}, updated_at = :now, wake_at = CASE WHEN wake_at < :now THEN :now ELSE wake_at END
   WHERE tenant_id = :tenant AND run_id = ? AND held = 1`;
const releaseRun = tenantSql("fiber_release", {
  sqlite: released(latest("max")),
  postgres: released(latest("GREATEST")),
});

const pageRows = 500;

/**
 * Carries out what a restore has left to be done, before anything goes on: jobs get the next time of their schedules, and open durable runs
 * are held, unless they are to go on. Answers how many are held by that; null where nothing was restored.
 */
export async function carryOutRestore(store: Store, nextTime: NextTime): Promise<number | null> {
  const { system } = store;
  const [mark] = await system.read(selectMark, restoredMark.name);
  if (mark === undefined) return null;
  await skipMissedTimes(system, nextTime);
  const isHeld = Number(mark.value) === restoredMark.held;
  const ops = [...(isHeld ? [system.op(holdAll, [])] : []), system.op(deleteMark, [restoredMark.name])];
  const [held] = await system.write(ops);
  return isHeld ? (held?.length ?? 0) : 0;
}

/** Which held runs are meant: one and the runs that belong to it, or those of a manifest; all where neither is named. */
export interface HeldRuns {
  readonly token: string | null;
  readonly manifest: string | null;
}

interface HeldRun {
  readonly run_id: string;
  readonly manifest: string;
  readonly parent_run_id: string | null;
}

/** Lets held runs go, each with its tasks and the run that it is a task of. Answers their ids. */
export async function releaseHeld(store: TenantStore, { token, manifest }: HeldRuns): Promise<string[]> {
  const held = new Map((await heldRuns(store)).map((run) => [run.run_id, run]));
  /** The run above all that are held with this one. */
  const topOf = (run: HeldRun): HeldRun => {
    const above = run.parent_run_id === null ? undefined : held.get(run.parent_run_id);
    return above === undefined ? run : topOf(above);
  };
  const named = token === null ? undefined : held.get(token);
  const tops = new Set(
    [...held.values()]
      .filter((run) => topOf(run) === run && (manifest === null || run.manifest === manifest))
      .filter((run) => token === null || (named !== undefined && topOf(named) === run)),
  );
  const chosen = [...held.values()].filter((run) => tops.has(topOf(run))).map(({ run_id }) => run_id);
  for (let from = 0; from < chosen.length; from += pageRows)
    await store.write(chosen.slice(from, from + pageRows).map((id) => store.op(releaseRun, [id])));
  return chosen;
}

async function heldRuns(store: TenantStore): Promise<HeldRun[]> {
  const found: HeldRun[] = [];
  for (let after = ""; ; ) {
    const page = (await store.read(selectHeld, after, pageRows)) as unknown as HeldRun[];
    found.push(...page);
    const last = page.at(-1);
    if (last === undefined || page.length < pageRows) return found;
    after = last.run_id;
  }
}
