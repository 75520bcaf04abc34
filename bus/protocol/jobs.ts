import type { Principal } from "./principal.ts";

/** The jobs of one tenant. Writes and firings of a tenant happen one after another. */
export interface JobsMessages {
  /**
   * Writes a job. Refuses with invalid_schedule, too_many_jobs, invalid_request for a manifest that there is not, and conflict when it is
   * changed by others meanwhile.
   */
  put: { body: { readonly name: string; readonly job: AskedJob; readonly principal: Principal }; reply: Done };
  /** Deletes a job and what is known of its runs. Refuses with not_found, and with conflict as `put` does. */
  remove: { body: { readonly name: string; readonly principal: Principal }; reply: Done };
  /** Starts a job now, whatever its schedule says. Refuses with not_found, and with run_in_progress while it runs. */
  run: { body: { readonly name: string; readonly principal: Principal }; reply: { readonly run_id: string } };
  /** Writes down what has come of runs. Before the records of runs are read. */
  settle: { body: Record<string, never>; reply: Done };
  /** Starts what is due, and sees to what has been started. */
  look: { body: Record<string, never> };
}

type Done = Record<string, never>;

/** A job as somebody writes it. */
export interface AskedJob {
  readonly schedule: string;
  readonly manifest_id: string;
  readonly payload: { readonly prompt?: string; readonly message?: string; readonly fresh_thread?: boolean };
  readonly enabled: boolean;
}
