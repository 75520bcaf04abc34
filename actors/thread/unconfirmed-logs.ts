import type { Address } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { Env, Timer } from "../../bus/env.ts";

/**
 * When a log is looked at again; the last time, nothing of a batch that was not answered is on its way any more. Where even that fails, as the
 * store is still away, it begins anew.
 */
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
 * Conversations of which the store may have a run that nobody runs: one was to begin with a batch that was not answered in time, which may have
 * been applied, or yet be; or the end of one could not be written. They are asked to look, several times and when the answer comes after all.
 */
export class UnconfirmedLogs {
  readonly #bus: Pick<Bus, "ask">;
  readonly #env: Pick<Env, "monotonic" | "timer">;
  /** By thread, the oldest first. */
  readonly #doubts = new Map<string, Doubt>();
  #timer: Timer | null = null;

  constructor(bus: Pick<Bus, "ask">, env: Pick<Env, "monotonic" | "timer">) {
    this.#bus = bus;
    this.#env = env;
  }

  /** A conversation is to be looked at. */
  note(thread: Address<"thread">): void {
    this.#doubts.delete(thread.key);
    this.#doubts.set(thread.key, { thread, since: this.#env.monotonic(), looks: 0 });
    if (this.#doubts.size > logsMax) this.#doubts.delete(this.#doubts.keys().next().value as string);
    this.#timer ??= this.#env.timer(sweepMs, this.#sweep);
  }

  /** Has a conversation look now; false when it cannot. */
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
