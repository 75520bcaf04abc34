import type { Logger } from "pino";
import type { RepeatedTask } from "../../bus/task-declaration.ts";
import type { Store } from "../../storage/store/store.ts";
import { moveTimesAhead } from "../../storage/tables/stored-times.ts";
import { nextTime } from "./schedule.ts";

const lookMs = 60_000;

/** Resets times that a clock stored that was ahead. */
export const storedTimesTask: RepeatedTask<{ readonly store: Store; readonly log: Pick<Logger, "warn"> }> = {
  name: "stored_times",
  of: "scheduler",
  async run({ store, log }) {
    const moved = await moveTimesAhead(store.system, nextTime);
    if (moved.jobs + moved.runs + moved.deliveries > 0)
      log.warn(moved, "times stored too far in the future were reset: a clock was ahead when they were stored");
    return lookMs;
  },
};
