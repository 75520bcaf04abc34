import { jobsAddress } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { RepeatedTask } from "../../bus/task-declaration.ts";
import type { Store } from "../../storage/store/store.ts";
import { tenantsWithOpenJobRuns } from "../../storage/tables/job-runs.ts";
import { tenantsWithDueJobs } from "../../storage/tables/jobs.ts";

const pageRows = 500;

/**
 * Wakes the job actor of every tenant with a due or running job. An actor claims the due time in the store, so that a job fires
 * once however many hosts look. Returns the number of tenants.
 */
async function lookAtJobs(store: Store, bus: Bus): Promise<number> {
  const tenants = new Set<string>();
  for (const page of [tenantsWithDueJobs, tenantsWithOpenJobRuns])
    for (let after: string | undefined = ""; after !== undefined; ) {
      const found: string[] = await page(store.system, after, pageRows);
      for (const tenant of found) tenants.add(tenant);
      after = found.length < pageRows ? undefined : found.at(-1);
    }
  for (const tenant of tenants) bus.tell(jobsAddress(tenant), "look", {});
  return tenants.size;
}

/** Max delay of a job's start, and of recording its outcome without a wake-up message. */
const lookMs = 1_000;

/** Starts scheduled jobs. */
export const jobsTask: RepeatedTask<{ readonly store: Store; readonly bus: Bus }> = {
  name: "run_scheduled_jobs",
  of: "scheduler",
  onTicks: true,
  async run({ store, bus }) {
    await lookAtJobs(store, bus);
    return lookMs;
  },
};
