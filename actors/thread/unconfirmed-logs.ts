import type { Address } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { Env, Timer } from "../../bus/env.ts";

/**
 * Times at which a log is checked. At the last one, no unconfirmed batch can still be applied. If even that check fails because
 * the store is unavailable, the checks start again.
 */
const looksMs = [1_000, 10_000, 60_000, 600_000];
const sweepMs = 1_000;
/** Max logs; then the oldest is dropped. It is checked when its thread is next used, or when the process restarts. */
const logsMax = 10_000;

interface Doubt {
  readonly thread: Address<"thread">;
  readonly since: number;
  looks: number;
}

/**
 * Threads for which the store may have a live run without an owner. The batch that began a run has an unknown outcome, or the
 * end of a run could not be written. They are asked to check several times, and when a late reply of the store arrives.
 */
export class UnconfirmedLogs {
  readonly #bus: Pick<Bus, "ask">;
  readonly #env: Pick<Env, "monotonic" | "timer">;
  /** By thread, oldest first. */
  readonly #doubts = new Map<string, Doubt>();
  #timer: Timer | null = null;

  constructor(bus: Pick<Bus, "ask">, env: Pick<Env, "monotonic" | "timer">) {
    this.#bus = bus;
    this.#env = env;
  }

  /** Schedules checks of a thread. */
  note(thread: Address<"thread">): void {
    this.#doubts.delete(thread.key);
    this.#doubts.set(thread.key, { thread, since: this.#env.monotonic(), looks: 0 });
    if (this.#doubts.size > logsMax) this.#doubts.delete(this.#doubts.keys().next().value as string);
    this.#timer ??= this.#env.timer(sweepMs, this.#sweep);
  }

  /** Makes a thread check now; false if it fails. */
  look(thread: Address<"thread">): Promise<boolean> {
    return this.#bus.ask(thread, "recover", {}).then(
      () => true,
      () => false,
    );
  }

  #sweep = (): void => {
    this.#timer = null;
    const now = this.#env.monotonic();
    for (const [key, doubt] of this.#doubts) {
      const lookMs = looksMs[doubt.looks];
      if (lookMs === undefined) this.#doubts.delete(key);
      else if (doubt.since + lookMs <= now) {
        doubt.looks++;
        void this.look(doubt.thread).then((hasLooked) => {
          if (!hasLooked && doubt.looks === looksMs.length) this.note(doubt.thread);
        });
      }
    }
    if (this.#doubts.size > 0) this.#timer = this.#env.timer(sweepMs, this.#sweep);
  };
}
