/** How often a task has run in this process. */
export interface TaskHistory {
  /** True until one run has succeeded. */
  readonly isFirst: boolean;
}

interface Declared {
  readonly name: string;
  /** Which processes run the task: all, those with the duty `worker`, or one that a scheduler chooses. */
  readonly of: "process" | "worker" | "scheduler";
}

/** A task that says after each run when it is due again. */
export interface RepeatedTask<Deps> extends Declared {
  /** True if the task continues while the process drains. */
  readonly whileDraining?: true;
  /** True if each tick of the scheduler starts the task, instead of the pause that `run` returns. */
  readonly onTicks?: true;
  /** Runs the task once. Returns the milliseconds until it is due again. */
  run(deps: Deps, history: TaskHistory): Promise<number>;
}

/** A task with fixed times; of several processes, one runs each time. */
export interface ScheduledTask<Deps> extends Declared {
  /** Five fields in UTC. */
  readonly schedule: string;
  run(deps: Deps): Promise<void>;
}

/** A periodic task of svc. It is declared beside its feature and listed in host/periodic-tasks.ts. `Deps` are the services that it uses. */
export type TaskDeclaration<Deps> = RepeatedTask<Deps> | ScheduledTask<Deps>;
