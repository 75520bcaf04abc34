import type { Address } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { Env, Timer } from "../../bus/env.ts";

/** When a log is looked at again behind the batch that was not answered; the last time, nothing of it is on its way any more. */
const looksMs = [1_000, 10_000, 60_000, 600_000];
const sweepMs = 1_000;
/** Beyond them the oldest is forgotten: it is looked at when its conversation is asked for, or when the process starts anew. */
const logsMax = 10_000;

interface Doubt {
  readonly thread: Address<"thread">;
  readonly since: number;
  looks: number;
}

/**
 * Conversations in which a run was to begin with a batch that was not answered in time. It may have been applied, or yet be: then the
 * store has a run that nobody runs. They are asked to look, several times and when the answer comes after all.
 */
export class DoubtfulLogs {
  readonly #bus: Pick<Bus, "tell">;
  readonly #env: Pick<Env, "monotonic" | "timer">;
  /** By thread, the oldest first. */
  readonly #doubts = new Map<string, Doubt>();
  #timer: Timer | null = null;

  constructor(bus: Pick<Bus, "tell">, env: Pick<Env, "monotonic" | "timer">) {
    this.#bus = bus;
    this.#env = env;
  }

  /** The batch of a conversation was not answered. */
  note(thread: Address<"thread">): void {
    this.#doubts.delete(thread.key);
    this.#doubts.set(thread.key, { thread, since: this.#env.monotonic(), looks: 0 });
    if (this.#doubts.size > logsMax) this.#doubts.delete(this.#doubts.keys().next().value as string);
    this.#timer ??= this.#env.timer(sweepMs, this.#sweep);
  }

  /** Has a conversation look now. */
  look(thread: Address<"thread">): void {
    this.#bus.tell(thread, "recover", {});
  }

  #sweep = (): void => {
    this.#timer = null;
    const now = this.#env.monotonic();
    for (const [key, doubt] of this.#doubts) {
      const lookMs = looksMs[doubt.looks];
      if (lookMs === undefined) this.#doubts.delete(key);
      else if (doubt.since + lookMs <= now) {
        doubt.looks++;
        this.look(doubt.thread);
      }
    }
    if (this.#doubts.size > 0) this.#timer = this.#env.timer(sweepMs, this.#sweep);
  };
}
