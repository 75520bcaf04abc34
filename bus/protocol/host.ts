/** Why a task runs: its time has come, or a request asks for it. */
export type WhyTask = "due" | "asked";

/** The result of a request to run a periodic task: done, no such task, the process is stopping, or another process has the duty. */
export type TaskAnswer = "done" | "unknown" | "stopped" | "not_held";

/** A run of a periodic task, and the milliseconds until the task is due again. */
export interface TaskRun {
  readonly answer: TaskAnswer;
  readonly pause_ms: number;
}

/** Messages to the main thread of a host. */
export interface HostMessages {
  /** Runs a periodic task there. `hands_on` lets a host without the duty `worker` hand it to one that has it. */
  task: { body: { name: string; why: WhyTask; hands_on: boolean }; reply: TaskRun };
}
