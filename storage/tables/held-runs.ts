import { restoredMark } from "../store/restored-mark.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Store, TenantStore } from "../store/store.ts";
import { skipDueOp } from "./eval-datasets.ts";
import { endRestoredEvalRunsOp } from "./eval-runs.ts";
import { endRestoredSkillJobsOps } from "./skill-jobs.ts";
import { type NextTime, skipMissedTimes } from "./stored-times.ts";
import { endRestoredWorkflowRunsOp } from "./workflow-runs.ts";

// A restored backup does not know what its open runs did after it was made. So open durable runs of a restored database
// are held: they do not resume or expire until an operator releases them. The backup may have an older schema. The
// restore therefore only leaves a mark, which the first server with its current schema processes.

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
 * Completes a restore before the server starts any work. Jobs and continuous evaluations get a next time. Open durable
 * runs are held and unfinished evaluations fail, unless runs may resume. Returns the number of held runs; null if nothing was restored.
 */
export async function carryOutRestore(store: Store, nextTime: NextTime): Promise<number | null> {
  const { system } = store;
  const [mark] = await system.read(selectMark, restoredMark.name);
  if (mark === undefined) return null;
  await skipMissedTimes(system, nextTime);
  const isHeld = Number(mark.value) === restoredMark.held;
  const holding = isHeld
    ? [
        ...[system.op(holdAll, []), endRestoredEvalRunsOp(system), endRestoredWorkflowRunsOp(system)],
        ...endRestoredSkillJobsOps(system),
      ]
    : [];
  const ops = [...holding, skipDueOp(system), system.op(deleteMark, [restoredMark.name])];
  const [held] = await system.write(ops);
  return isHeld ? (held?.length ?? 0) : 0;
}

/** The selection of held runs: one run and those related to it, or those of a manifest; all if both are null. */
export interface HeldRuns {
  readonly token: string | null;
  readonly manifest: string | null;
}

interface HeldRun {
  readonly run_id: string;
  readonly manifest: string;
  readonly parent_run_id: string | null;
}

/** Releases held runs, each with its tasks and its parents. Returns their ids. */
export async function releaseHeld(store: TenantStore, { token, manifest }: HeldRuns): Promise<string[]> {
  const held = new Map((await heldRuns(store)).map((run) => [run.run_id, run]));
  /** Returns the topmost held parent of a run. */
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
