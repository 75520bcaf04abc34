import { allDuties, type Duty, holds } from "../governance/settings/duties.ts";

// What a process is there for. One process has all duties; SVC_DUTIES leaves some of them out, and what is theirs waits in the store.

/** What stands still without a duty. The routes of `api` are in http/routes/all.ts, the tasks of the others in host/periodic-tasks.ts. */
const withoutDuty: Readonly<Record<Duty, string>> = {
  api: "it answers only /health, /live, /ready, /metrics and POST /tasks/{name}/run",
  worker: "durable runs and webhooks wait, and periodic tasks do not run",
  scheduler: "periodic tasks run only on request, so no job runs by its schedule",
};

/** What an operator is told of each duty that these settings leave out. */
export function warningsOfDuties(settings: { readonly duties: readonly string[] }): string[] {
  return allDuties
    .filter((duty) => !holds(settings, duty))
    .map((duty) => `SVC_DUTIES leaves ${duty} out: ${withoutDuty[duty]}`);
}
