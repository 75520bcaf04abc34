import { cutText } from "../../bus/cut-text.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { acceptJobRunOp, type JobRunRow, jobRunStanding, openJobRuns } from "../../storage/tables/job-runs.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { JobsDeps } from "./deps.ts";
import { allOver, endRun, submit } from "./fire.ts";

/** Open runs per page. */
const pageRows = 50;
/** Max characters of the reply in a record; the thread has all of it. */
const answerCharsMax = 16_384;

/** Records the outcomes of the tenant's open runs, and starts again those that the store does not have. */
export async function settleRuns(store: TenantStore, context: ActorContext<JobsDeps>): Promise<void> {
  for (let after = ""; ; ) {
    const page = await openJobRuns(store, after, pageRows);
    await allOver(page.map((run) => settle(store, run, context)));
    const last = page.at(-1);
    if (last === undefined || page.length < pageRows) return;
    after = last.job_name;
  }
}

async function settle(store: TenantStore, run: JobRunRow, context: ActorContext<JobsDeps>): Promise<void> {
  const standing = await jobRunStanding(store, run);
  if (standing === undefined) {
    if (run.accepted_at === null) return submit(store, run, context);
    // The run was accepted and deleted with its thread.
    return endRun(store, run, { status: "error", outcome: "failed", error: "thread_deleted", answer: null });
  }
  if (standing.ended_at === null) {
    if (run.accepted_at === null) await store.write([acceptJobRunOp(store, run.run_id)]);
    return;
  }
  const { status: outcome, error, final } = standing;
  const answer = final === null ? null : cutText(final, answerCharsMax);
  return endRun(store, run, { status: error === null ? "ok" : "error", outcome, error: error ?? "", answer });
}
