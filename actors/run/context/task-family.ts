import type {
  BudgetUsed,
  ReportedBreach,
  ReservationReply,
  ReservationRequest,
  SharedBudgets,
  TaskOutcome,
} from "../../../bus/protocol/run.ts";
import type { ToolResult, ToolWait } from "../../tools/tool.ts";

/** A task as an agent words it. */
export interface AskedTask {
  readonly agent: string;
  readonly prompt: string;
  /** The call that hands it out. */
  readonly call_id: string;
  /** The agents of the run, from the one that was asked to the one that hands out the task. */
  readonly by: readonly string[];
  /** How many may be in flight in its conversation, where the task goes on beside the run; null where the run waits for it. */
  readonly background: { readonly tasks_max: number } | null;
}

/** The tasks that one run has handed to other agents, and what they have borrowed of its budget. */
export interface TaskFamily {
  /**
   * Hands a task to another agent, and waits for its end; `signal` says that nobody does any more. A wait is the answer when the task is
   * put aside.
   */
  run(asked: AskedTask, signal: AbortSignal): Promise<ToolResult | ToolWait>;
  /** A task that a call has begun before its process died, where there is one: what came of it, or a wait for it. */
  rejoin(callId: string, agent: string, signal: AbortSignal): Promise<ToolResult | ToolWait | null>;
  /** What came of a task that was put aside, by its row. */
  result(taskId: string, agent: string, signal: AbortSignal): Promise<ToolResult>;
  /** A task that was put aside goes on: it is about to ask for something. */
  expect(taskId: string): void;
  /** Waits for a task that goes on: false when it is put aside, true when it is over, and its wait is answered. */
  back(taskId: string): Promise<boolean>;
  /** Resolves when no task goes on any more, or the run is stopped. */
  rest(): Promise<void>;
  /** Whether a task goes on. */
  readonly isAtWork: boolean;
  /** Stops a task that was put aside. */
  stop(taskId: string): void;
  /** A task is put aside. */
  aside(taskId: string): void;
  /** A task is over. */
  ended(taskId: string, outcome: TaskOutcome): void;
  /** Nobody here looks after the tasks any more. */
  close(): void;
  /** Counts a tool call of a task, here and above. */
  count(taskId: string, tool: string): Promise<ReportedBreach | null>;
  /** Sets aside what a model call of a task may use. While others hold the rest, it waits for what they give back. */
  reserve(asked: ReservationRequest): Promise<ReservationReply>;
  /** Keeps what they spend in the store from here on: a task begins one in the background. */
  share(taskId: string): Promise<SharedBudgets>;
  /** Takes back a reservation. */
  repay(reservationId: string, used: BudgetUsed): void;
  /** Waits a while for tasks that are stopped to give back what they were lent. */
  settled(): Promise<void>;
}
