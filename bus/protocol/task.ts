import type { TurnUsage } from "./model-reply.ts";

// The parts of messages between a run and its child tasks.

/** The run that started a task. */
export interface ParentRun {
  readonly run_id: string;
  readonly suffix: string;
  readonly task_id: string;
  /** Full id and key of the root thread, and the id of its run. */
  readonly root_thread_id: string;
  readonly root_key: number;
  readonly root_run_id: string;
  /** True if a client is present that could answer a question. */
  readonly attended: boolean;
  /** True if a client receives the frames of the root run and may answer questions in them. */
  readonly heard: boolean;
  /** Epoch milliseconds at which the time of the parent run and its tasks ends. */
  readonly deadline: number;
  /** The agents above the task, the root agent first. */
  readonly agents: readonly string[];
  /** The allow_hosts lists of those agents; absent for none. */
  readonly allow_hosts?: readonly (readonly string[])[];
  /** Untrusted sources of the texts in the runs above; absent for none. */
  readonly taint?: readonly string[];
  /** Number of tasks in the chain, including this one. */
  readonly depth: number;
  /** Set for a background task, with the limits of its budget; absent for a task that its parent waits for. */
  readonly background?: BackgroundTask;
  /** The budgets of a task that its parent waits for. Tasks that version 0.2.0 stored have none, and spend from their own limits. */
  readonly shared?: SharedBudgets;
  /** Set for a task of a durable run: it is durable too, and resumes after its last step. */
  readonly durable?: DurableTask;
  /** Set for a background task or a task below one, which cannot start other background tasks. */
  readonly beside?: true;
}

/** Limits of a durable run's task. */
export interface DurableTask {
  /** Max milliseconds of activity. */
  readonly active_ms: number;
}

/** Limits of a background task. */
export interface BackgroundTask extends SharedBudgets {
  /** Max milliseconds of activity. */
  readonly active_ms: number;
  /** Max running background tasks of the thread. */
  readonly tasks_max: number;
  /** Hooks that the end of the task calls, as JSON, and their manifest; absent for none. */
  readonly stop_hooks?: { readonly manifest: string; readonly hooks: string };
}

/** The stored budgets that a task spends from, outermost first. */
export interface SharedBudgets {
  readonly budgets: readonly string[];
  /** True if a budget limits cost; a model without a price is then refused. */
  readonly priced: boolean;
}

/** Outcome of a task. */
export interface TaskOutcome {
  readonly ok: boolean;
  /** The reply, or the reason for a missing one. */
  readonly text: string;
  /** The approval requests that it has waited for. */
  readonly approvals: readonly string[];
  /** Usage of the task and its own tasks; null if no provider reported any. */
  readonly usage: TurnUsage | null;
  /** Untrusted sources of the reply; absent for none. */
  readonly taint?: readonly string[];
}

/** A reservation for a model call in a shared budget. */
export interface BudgetReservation {
  readonly reservation_id: string;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cost_usd: number;
}

/** The used amounts. */
export type BudgetUsed = Omit<BudgetReservation, "reservation_id">;
