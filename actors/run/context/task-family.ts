import type {
  BudgetUsed,
  ReportedBreach,
  ReservationReply,
  ReservationRequest,
  SharedBudgets,
  TaskOutcome,
} from "../../../bus/protocol/task.ts";
import type { ToolResult, ToolWait } from "../../tools/tool.ts";

/** A task as an agent requests it. */
export interface AskedTask {
  readonly agent: string;
  readonly prompt: string;
  /** Id of the call that requests it. */
  readonly call_id: string;
  /** Names of the agents from the one that the caller asked down to the one that requests the task. */
  readonly by: readonly string[];
  /** Max background tasks of the thread, for a background task; null for a task that the run waits for. */
  readonly background: { readonly tasks_max: number } | null;
}

/** The tasks of one run, and their reservations in its budget. */
export interface TaskFamily {
  /**
   * Runs a task of another agent and returns its result. Returns a wait if the task is suspended. `signal` aborts when no caller
   * waits any more.
   */
  run(asked: AskedTask, signal: AbortSignal): Promise<ToolResult | ToolWait>;
  /** Returns the result of the task that an interrupted call had started, or a wait for it. Null if the call had started none. */
  rejoin(callId: string, agent: string, signal: AbortSignal): Promise<ToolResult | ToolWait | null>;
  /** Returns the result of a suspended task from its row. */
  result(taskId: string, agent: string, signal: AbortSignal): Promise<ToolResult>;
  /** Marks a suspended task as working, because it is about to ask for budget. */
  expect(taskId: string): void;
  /** Waits for a working task. Returns true when the task has ended and its wait is answered, false when it is suspended. */
  back(taskId: string): Promise<boolean>;
  /** Resolves when no task is working, or when the run is stopped. */
  rest(): Promise<void>;
  /** True if a task is working. */
  readonly isAtWork: boolean;
  /** Stops a suspended task. */
  stop(taskId: string): void;
  /** Records that a task is suspended. */
  aside(taskId: string): void;
  /** Records the end of a task. */
  ended(taskId: string, outcome: TaskOutcome): void;
  /** Ends the supervision of the tasks in this process. */
  close(): void;
  /** Counts a tool call of a task in this run and in the runs above. */
  count(taskId: string, tool: string): Promise<ReportedBreach | null>;
  /** Reserves the amount for a model call of a task. While other calls hold the rest, it waits for their settlements. */
  reserve(asked: ReservationRequest): Promise<ReservationReply>;
  /** Moves the budgets of the run into the store, because a task starts a background task. */
  share(taskId: string): Promise<SharedBudgets>;
  /** Settles a reservation. */
  repay(reservationId: string, used: BudgetUsed): void;
  /** Waits a limited time for stopped tasks to settle their reservations. */
  settled(): Promise<void>;
}
