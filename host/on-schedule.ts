import { nextTime } from "../actors/jobs/schedule.ts";
import type { Env } from "../bus/env.ts";
import type { WhyTask } from "../bus/protocol/host.ts";
import type { Store } from "../storage/store/store.ts";
import { takeTaskTime, taskTime } from "../storage/tables/task-times.ts";

/** Max pause between two checks, because clocks are changed and machines sleep. */
const lookMs = 600_000;

/** A task with a schedule; of several processes, the first one to claim a time runs it. */
export class OnSchedule {
  readonly #name: string;
  readonly #schedule: string;
  /** True if the last run failed: the task is due, although the store has advanced its time. */
  #failed = false;

  /** `schedule` is five fields in UTC. */
  constructor(name: string, schedule: string) {
    this.#name = name;
    this.#schedule = schedule;
  }

  /**
   * Runs the work if it is due or requested, and returns the milliseconds until the next check. Missed times are run once. In a
   * new database the first run is at the first scheduled time.
   */
  async run(why: WhyTask, { store, env }: { store: Store; env: Env }, work: () => Promise<void>): Promise<number> {
    const now = env.now();
    const next = nextTime(this.#schedule, now);
    const due = await taskTime(store.system, this.#name, next);
    // A stored time after the next one was written by a clock that was ahead.
    const isDue = due <= now || due > next;
    const isTaken = isDue && (await takeTaskTime(store.system, this.#name, due, next)) && due <= now;
    if (isTaken || this.#failed || why === "asked") {
      this.#failed = true;
      await work();
      this.#failed = false;
    }
    return Math.min(lookMs, Math.max(0, next - env.now()));
  }
}
