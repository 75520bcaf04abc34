import type { JsonText } from "./json-text.ts";
import type { Principal } from "./principal.ts";
import type { SharedBudgets } from "./task.ts";

/** Messages to one run of a workflow, which advances its steps. */
export interface WorkflowMessages {
  /**
   * Begins the run. Safe to repeat. Refuses with not_found, invalid_request for unfit inputs, too_many_workflow_runs and
   * principal_revoked.
   */
  start: { body: AskedWorkflowRun; reply: { readonly run_id: string } };
  /**
   * Advances the run: after a crash, at a deadline, after a lost message, or after a decision. `wake_at` is the time of this look as the
   * store has it; the actor reads its rows again if it knows another one.
   */
  look: { body: { readonly wake_at?: number } };
  /** The durable run of a step, or of an item of a map, has ended. */
  ended: { body: { readonly step_id: string; readonly item: number } };
  /** Stops the run. Refuses with not_found, and with run_finished after its end. */
  cancel: { body: { readonly principal: Principal }; reply: Record<string, never> };
}

/** A requested run of a workflow. */
export interface AskedWorkflowRun {
  readonly principal: Principal;
  readonly workflow_id: string;
  /** Null for the newest revision. */
  readonly revision: number | null;
  readonly inputs: JsonText<Readonly<Record<string, unknown>>>;
  readonly cause: "request" | "trigger" | "job";
  /** Untrusted sources of the inputs. */
  readonly taint: readonly string[];
}

/** Messages to the actor of a tenant's workflows, which serializes saves. */
export interface WorkflowsMessages {
  /** Returns ports and problems of a definition. */
  check: {
    body: { readonly definition: JsonText<unknown>; readonly principal: Principal };
    reply: CheckedWorkflow;
  };
  /** Returns the kinds of steps. */
  kinds: { body: Record<string, never>; reply: { readonly items: JsonText<readonly unknown[]> } };
  /**
   * Creates or replaces a workflow. Refuses with workflow_invalid, revision_mismatch, too_many_workflows, storage_quota_exceeded and
   * conflict.
   */
  put: { body: AskedWorkflow; reply: { readonly created: boolean; readonly revision: number } };
  /** Deletes a workflow and no runs of it. Refuses with not_found, revision_mismatch and conflict. */
  remove: {
    body: { readonly id: string; readonly if_match: IfMatch; readonly principal: Principal };
    reply: Record<string, never>;
  };
}

/** A workflow as its author wrote it. */
export interface AskedWorkflow {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly definition: JsonText<unknown>;
  readonly if_match: IfMatch;
  readonly principal: Principal;
}

/** The revisions of an If-Match header, `any` for `*`; null without the header. */
export type IfMatch = readonly number[] | "any" | null;

/** The result of a check; `ports` and `problems` are JSON. */
export interface CheckedWorkflow {
  readonly ok: boolean;
  readonly ports: JsonText<unknown>;
  readonly problems: JsonText<readonly unknown[]>;
}

/** The step of a workflow that a durable run works for. */
export interface WorkflowStepRun {
  readonly run_id: string;
  readonly step_id: string;
  /** Number of the item of a map; -1 for the step itself. */
  readonly item: number;
  /** Untrusted sources of its prompt or of its arguments. */
  readonly taint: readonly string[];
  /** The budget of the workflow run, from which it reserves; absent for none. */
  readonly shared?: SharedBudgets;
}
