import type { Logger } from "pino";
import type { Env } from "../bus/env.ts";
import { type Duty, holds } from "../governance/settings/duties.ts";
import type { TaskAnswer } from "../http/context.ts";

/** Why a task is done: its time has come, or somebody asks for it. */
export type WhyTask = "due" | "asked";

/** Something that a process does again and again, never twice at a time. */
export interface PeriodicTask {
  readonly name: string;
  /**
   * Whose it is. The worker's own work is never waited for; what the scheduler begins is carried out by the worker; every process has
   * what is its own.
   */
  readonly of: "process" | Extract<Duty, "worker" | "scheduler">;
  /** Whether it goes on while the process drains. */
  readonly whileDraining?: boolean;
  /** Does it once; answers how many milliseconds later it is due again. A throw is logged, and it is tried again soon. */
  run(why: WhyTask): Promise<number>;
}

/** Tasks that are done again and again. */
export interface RunningTasks {
  /** Begins nothing more; what is under way comes to its end. */
  stop(): void;
  /**
   * Does a task now, behind one that is under way; once for all who ask meanwhile. Answers once it is done; rejects when it has failed.
   */
  run(name: string): Promise<TaskAnswer>;
}

/** A task that has failed is tried again a second later, and each further time after twice as long. */
const retryMs = 1_000;
/** Up to its own pause, which for a task of each second is made a little longer and for one of each hour is this at most. */
const retryMsMax = { shortest: 5_000, longest: 60_000 } as const;

/** How often it is asked whether tasks are held still. */
const heldMs = 1_000;

/** How long nothing is tried after so many failures of a task that is otherwise done after such a pause. */
function retryPause(failures: number, usualMs: number): number {
  const most = Math.min(retryMsMax.longest, Math.max(retryMsMax.shortest, usualMs));
  return Math.min(most, retryMs * 2 ** (failures - 1));
}

/** A task may be a plugin's, in JavaScript: what is no time would be now, again and again. */
function checkedPause(pauseMs: unknown): number {
  if (typeof pauseMs === "number" && pauseMs >= 0 && pauseMs < Number.POSITIVE_INFINITY) return pauseMs;
  throw new Error("the task has not answered how many milliseconds later it is due again");
}

/** One task, never twice at a time. */
class TaskLine {
  readonly task: PeriodicTask;
  /** How often it has failed since it was done last, when it was due. */
  failures = 0;
  /** The pause that it has asked for last. */
  usualMs: number = retryMsMax.longest;
  /** Never rejects. */
  #underWay: Promise<void> | null = null;
  /** What is done behind what is under way, and whether somebody has asked for it. */
  #next: { readonly done: Promise<number>; why: WhyTask } | null = null;

  constructor(task: PeriodicTask) {
    this.task = task;
  }

  /** Does it, now or behind what is under way: once for all who come before that begins. */
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
 * Does each task now and whenever it is due again, as far as the duties of the process go. None begins by itself while `isHeld` says so,
 * which is asked each second until it does not.
 */
export function startTasks(
  tasks: readonly PeriodicTask[],
  env: Env,
  log: Logger,
  settings: { readonly duties: readonly string[] },
  isHeld: (() => Promise<boolean>) | null = null,
): RunningTasks {
  let stopped = false;
  const isDone = ({ of }: PeriodicTask) => of === "process" || holds(settings, "worker");
  const isBegun = (task: PeriodicTask) => isDone(task) && (task.of !== "scheduler" || holds(settings, "scheduler"));
  const lines = tasks.map((task) => new TaskLine(task));
  const repeat = async (line: TaskLine): Promise<void> => {
    const { task } = line;
    if (stopped && !task.whileDraining) return;
    let pauseMs: number;
    try {
      pauseMs = line.usualMs = checkedPause(await line.once("due"));
      line.failures = 0;
    } catch (error) {
      pauseMs = retryPause(++line.failures, line.usualMs);
      log.warn({ err: error, task: task.name, again_in_ms: pauseMs }, "a periodic task failed");
    }
    env.timer(pauseMs, () => void repeat(line));
  };
  const begin = (): void => {
    for (const line of lines) if (isBegun(line.task)) void repeat(line);
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
    },
    async run(name) {
      const line = lines.find(({ task }) => task.name === name);
      if (line === undefined) return "unknown";
      if (stopped) return "stopped";
      if (!isDone(line.task)) return "not_held";
      await line.once("asked");
      return "done";
    },
  };
}
