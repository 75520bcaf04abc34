import type { Logger } from "pino";
import type { Env } from "../bus/env.ts";
import type { TaskRun, WhyTask } from "../bus/protocol/host.ts";
import { type Duty, holds } from "../governance/settings/duties.ts";
import { type Ticks, timerTicks } from "./ticks.ts";

/** A repeated task; at most one run at a time. */
export interface PeriodicTask {
  readonly name: string;
  /**
   * The duty that the task needs. `scheduler` tasks start by themselves only with the duties worker and scheduler, and on
   * request with worker. Every process runs `process` tasks.
   */
  readonly of: "process" | Extract<Duty, "worker" | "scheduler">;
  /** True if the task continues while the process drains. */
  readonly whileDraining?: boolean;
  /** True if each tick of the scheduler starts the task, instead of the pause that `run` returns. */
  readonly onTicks?: boolean;
  /** True while another host of the deployment starts the task. */
  readonly isElsewhere?: () => boolean;
  /** Runs the task once and returns the milliseconds until it is due again. An error is logged, and the task is retried soon. */
  run(why: WhyTask): Promise<number>;
}

/** The running tasks of a process. */
export interface RunningTasks {
  /** Starts no more runs; runs in progress finish. */
  stop(): void;
  /**
   * Runs a task now, after a run in progress; also one that another host starts. Concurrent requests share one run. Resolves when it is done; rejects if it fails.
   */
  run(name: string, why: WhyTask): Promise<TaskRun>;
}

/** First pause after a failure; doubles with each further failure. */
const retryMs = 1_000;
/** Bounds of the longest pause after failures: a task's usual pause, limited to this range. */
const retryMsMax = { shortest: 5_000, longest: 60_000 } as const;

/** Interval at which `isHeld` is polled. */
const heldMs = 1_000;

/** Returns the pause after a number of failures of a task with the given usual pause. */
function retryPause(failures: number, usualMs: number): number {
  const most = Math.min(retryMsMax.longest, Math.max(retryMsMax.shortest, usualMs));
  return Math.min(most, retryMs * 2 ** (failures - 1));
}

/** Checks the pause: a plugin may be untyped, and an invalid pause would make the task run without a break. */
function checkedPause(pauseMs: unknown): number {
  if (typeof pauseMs === "number" && pauseMs >= 0 && pauseMs < Number.POSITIVE_INFINITY) return pauseMs;
  throw new Error("the task must return the milliseconds until its next run");
}

/** One task; at most one run at a time. */
class TaskLine {
  readonly task: PeriodicTask;
  /** Failures in a row of due runs. */
  failures = 0;
  /** The last pause that the task returned. */
  usualMs: number = retryMsMax.longest;
  /** Never rejects. */
  #underWay: Promise<void> | null = null;
  /** The run queued after the one in progress, and why it runs. */
  #next: { readonly done: Promise<number>; why: WhyTask } | null = null;

  constructor(task: PeriodicTask) {
    this.task = task;
  }

  /** Runs the task now or after the run in progress; calls before that run starts share it. */
  once(why: WhyTask): Promise<number> {
    if (this.#next !== null) {
      if (why === "asked") this.#next.why = why;
      return this.#next.done;
    }
    if (this.#underWay === null) return this.#begin(why);
    const done = this.#underWay.then(() => {
      const { why } = this.#next as { why: WhyTask };
      this.#next = null;
      return this.#begin(why);
    });
    this.#next = { done, why };
    return done;
  }

  async #begin(why: WhyTask): Promise<number> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#underWay = promise;
    try {
      return await this.task.run(why);
    } finally {
      this.#underWay = null;
      resolve();
    }
  }
}

/**
 * Runs each task now and whenever it is due, within the duties of the process. `ticks` start the tasks with `onTicks`. While
 * `isHeld` returns true, no task starts; it is polled every second.
 */
export function startTasks(
  tasks: readonly PeriodicTask[],
  env: Env,
  log: Logger,
  settings: { readonly duties: readonly string[] },
  isHeld: (() => Promise<boolean>) | null = null,
  ticks: Ticks = timerTicks(env),
): RunningTasks {
  let stopped = false;
  const isDone = ({ of }: PeriodicTask) => of === "process" || holds(settings, "worker");
  const isBegun = (task: PeriodicTask) => isDone(task) && (task.of !== "scheduler" || holds(settings, "scheduler"));
  const lines = tasks.map((task) => new TaskLine(task));
  /** Runs a task once and returns the pause after it. Never rejects. */
  const attempt = async (line: TaskLine): Promise<number> => {
    // Look again soon: the other host may end.
    if (line.task.isElsewhere?.()) return heldMs;
    try {
      line.usualMs = checkedPause(await line.once("due"));
      line.failures = 0;
      return line.usualMs;
    } catch (error) {
      const pauseMs = retryPause(++line.failures, line.usualMs);
      log.warn({ err: error, task: line.task.name, again_in_ms: pauseMs }, "a periodic task failed");
      return pauseMs;
    }
  };
  const repeat = async (line: TaskLine): Promise<void> => {
    if (stopped && !line.task.whileDraining) return;
    const pauseMs = await attempt(line);
    env.timer(pauseMs, () => void repeat(line));
  };
  const stopTicks: (() => void)[] = [];
  /** Runs a task now and at each tick. Skips ticks while it runs, and until a failed run is due again. */
  const repeatOnTicks = (line: TaskLine): void => {
    let dueAt = env.monotonic();
    const tick = async (): Promise<void> => {
      if (stopped || env.monotonic() < dueAt) return;
      dueAt = Number.POSITIVE_INFINITY;
      const pauseMs = await attempt(line);
      dueAt = line.failures === 0 ? 0 : env.monotonic() + pauseMs;
    };
    stopTicks.push(ticks(() => void tick()));
    void tick();
  };
  const begin = (): void => {
    for (const line of lines.filter(({ task }) => isBegun(task)))
      if (line.task.onTicks) repeatOnTicks(line);
      else void repeat(line);
  };
  const beginWhenFree = async (isHeld: () => Promise<boolean>): Promise<void> => {
    if (stopped) return;
    if (await isHeld()) env.timer(heldMs, () => void beginWhenFree(isHeld));
    else if (!stopped) begin();
  };
  if (isHeld === null) begin();
  else void beginWhenFree(isHeld);
  return {
    stop() {
      stopped = true;
      for (const stop of stopTicks) stop();
    },
    async run(name, why) {
      const line = lines.find(({ task }) => task.name === name);
      const pause_ms = heldMs;
      if (line === undefined) return { answer: "unknown", pause_ms };
      if (stopped) return { answer: "stopped", pause_ms };
      if (!isDone(line.task)) return { answer: "not_held", pause_ms };
      return { answer: "done", pause_ms: checkedPause(await line.once(why)) };
    },
  };
}
