import { clusterConfigOf } from "../governance/settings/cluster-settings.ts";
import { allDuties, type Duty, holds } from "../governance/settings/duties.ts";
import type { Settings } from "../governance/settings/settings.ts";

// Duties of a process. By default a process has all of them; SVC_DUTIES leaves some out, and their work stays in the store.

/**
 * The consequence of a missing duty. http/routes/all.ts selects the routes of `api`, and host/periodic-tasks.ts the tasks of the
 * others.
 */
const withoutDuty: Readonly<Record<Duty, string>> = {
  api: "it answers only /health, /live, /ready, /metrics and POST /tasks/{name}/run, on SVC_METRICS_PORT",
  worker: "durable runs and webhooks wait, and periodic tasks do not run",
  scheduler: "periodic tasks run only on request, so no job runs by its schedule",
};

/** Returns a warning for each duty that the settings leave out. In a cluster other hosts have it. */
export function warningsOfDuties(settings: Settings): string[] {
  if (clusterConfigOf(settings) !== null) return [];
  return allDuties
    .filter((duty) => !holds(settings, duty))
    .map((duty) => `SVC_DUTIES leaves ${duty} out: ${withoutDuty[duty]}`);
}
