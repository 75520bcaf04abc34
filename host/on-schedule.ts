import { nextTime } from "../actors/jobs/schedule.ts";
import type { Env } from "../bus/env.ts";
import type { Store } from "../storage/store/store.ts";
import { takeTaskTime, taskTime } from "../storage/tables/task-times.ts";
import type { WhyTask } from "./task-runner.ts";

/** Longer than this nobody waits without looking again: clocks are set, and machines sleep. */
const lookMs = 600_000;

/** A task that is done at the times of a schedule, whichever process comes to one of them first. */
export class OnSchedule {
  readonly #name: string;
  readonly #schedule: string;
  /** It was begun and has failed: it is due, whatever the store says. */
  #failed = false;

  /** `schedule` is five fields in UTC. */
  constructor(name: string, schedule: string) {
    this.#name = name;
    this.#schedule = schedule;
  }

  /**
   * Does the work if its time has come or somebody asks for it, and answers how many milliseconds later it is to be looked again. However
   * many of its times have gone by, it is done once. A new database has nothing that would be due before the first of them.
   */
  async run(why: WhyTask, { store, env }: { store: Store; env: Env }, work: () => Promise<void>): Promise<number> {
    const now = env.now();
    const next = nextTime(this.#schedule, now);
    const due = await taskTime(store.system, this.#name, next);
    // One that is further away than the next was written by a clock that was ahead.
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
