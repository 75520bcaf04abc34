import { schedule } from "node-cron";
import type { Env } from "../bus/env.ts";

/** Calls `tick` every second until the returned function is called. */
export type Ticks = (tick: () => void) => () => void;

const silent = { info() {}, warn() {}, error() {}, debug() {} };

/** The ticks of a server, by node-cron. A tick that the process was too busy for is skipped. */
export const cronTicks: Ticks = (tick) => {
  const task = schedule("* * * * * *", () => tick(), { suppressMissedWarning: true, logger: silent });
  return () => void task.destroy();
};

/** The ticks of an Env, whose clock may be simulated. */
export function timerTicks(env: Env): Ticks {
  return (tick) => {
    let isStopped = false;
    const next = (): void => {
      env.timer(1_000, () => {
        if (isStopped) return;
        tick();
        next();
      });
    };
    next();
    return () => {
      isStopped = true;
    };
  };
}
