import type { TaskOutcome } from "../../../bus/protocol/task.ts";
import type { ToolResult, ToolWait } from "../../tools/tool.ts";

/** A task as an agent requests it. */
export interface AskedTask {
  readonly agent: string;
  readonly prompt: string;
  /** Id of the call that requests it. */
  readonly call_id: string;
  /** Names of the agents from the one that the caller asked down to the one that requests the task. */
  readonly by: readonly string[];
  /** True if the task gets files of its own, where the thread has a repository. */
  readonly worktree: boolean;
  /** Max background tasks of the thread, for a background task; null for a task that the run waits for. */
  readonly background: { readonly tasks_max: number } | null;
}

/** The tasks of one run. */
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
  /** Marks a suspended task as working, because it has resumed. */
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
  /** Records that a suspended task works again. Refuses with actor_lost if no call waits for it. */
  resumed(taskId: string): void;
}
