import type { Principal } from "./principal.ts";

/** Messages to the jobs actor of one tenant, which serializes writes and firings. */
export interface JobsMessages {
  /**
   * Creates or replaces a job. Refuses with invalid_schedule, too_many_jobs, invalid_request for an unknown manifest or
   * workflow, missing_scopes, and conflict on a concurrent change.
   */
  put: { body: { readonly name: string; readonly job: AskedJob; readonly principal: Principal }; reply: Done };
  /** Deletes a job and the records of its runs. Refuses with not_found, and with conflict as `put` does. */
  remove: { body: { readonly name: string; readonly principal: Principal }; reply: Done };
  /** Starts a job now, independent of its schedule. Refuses with not_found, and with run_in_progress while it runs. */
  run: { body: { readonly name: string; readonly principal: Principal }; reply: { readonly run_id: string } };
  /** Stores the outcomes of ended runs. Send it before reading the records of runs. */
  settle: { body: Record<string, never>; reply: Done };
  /** Starts due jobs, and updates those in progress. */
  look: { body: Record<string, never> };
}

type Done = Record<string, never>;

/** A job as its author wrote it. */
export interface AskedJob {
  readonly schedule: string;
  readonly manifest_id: string;
  readonly payload: {
    readonly prompt?: string;
    readonly message?: string;
    readonly fresh_thread?: boolean;
    /** The workflow that the job starts instead of an agent. */
    readonly workflow?: string;
    readonly inputs?: Readonly<Record<string, unknown>>;
  };
  readonly enabled: boolean;
}
