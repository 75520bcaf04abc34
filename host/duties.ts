import { allDuties, type Duty, holds } from "../governance/settings/duties.ts";

// Duties of a process. By default a process has all of them; SVC_DUTIES leaves some out, and their work stays in the store.

/**
 * The consequence of a missing duty. http/routes/all.ts selects the routes of `api`, and host/periodic-tasks.ts the tasks of the
 * others.
 */
const withoutDuty: Readonly<Record<Duty, string>> = {
  api: "it answers only /health, /live, /ready, /metrics and POST /tasks/{name}/run",
  worker: "durable runs and webhooks wait, and periodic tasks do not run",
  scheduler: "periodic tasks run only on request, so no job runs by its schedule",
};

/** Returns a warning for each duty that the settings leave out. */
export function warningsOfDuties(settings: { readonly duties: readonly string[] }): string[] {
  return allDuties
    .filter((duty) => !holds(settings, duty))
    .map((duty) => `SVC_DUTIES leaves ${duty} out: ${withoutDuty[duty]}`);
}
