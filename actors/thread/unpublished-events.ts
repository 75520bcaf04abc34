import type { Bus } from "../../bus/bus.ts";
import { readEvents } from "../../storage/tables/events.ts";
import { publishEvents } from "./event-log-writer.ts";
import type { EventLogState } from "./log-state.ts";

/** Max threads; then the oldest is dropped, and its subscribers miss events until they reconnect. */
const logsMax = 10_000;

/**
 * Published positions of threads whose state was dropped. A batch that failed may still have been applied, for example if the
 * database's reply was lost. Its events are in the log, but subscribers have not received them.
 */
export class UnpublishedEvents {
  readonly #bus: Bus;
  /** Events below it were published; by thread, oldest first. */
  readonly #told = new Map<string, number>();

  constructor(bus: Bus) {
    this.#bus = bus;
  }

  /** Records the published position before a state is dropped, or before a write that may stay unconfirmed. */
  note({ threadId, topic, committedSeq }: EventLogState): void {
    if (!this.#bus.hasSubscribers(topic)) return;
    this.#told.set(threadId, committedSeq);
    if (this.#told.size > logsMax) this.#told.delete(this.#told.keys().next().value as string);
  }

  /** Publishes the events of a loaded thread that subscribers have not received. */
  async tell(log: EventLogState): Promise<void> {
    const { threadId, head, store } = log;
    const told = this.#told.get(threadId);
    if (told === undefined) return;
    for (let next = told; head !== null && next < head.next_seq; ) {
      const events = await readEvents(store, head.thread_key, next, head.next_seq);
      const last = events.at(-1);
      if (last === undefined) break;
      publishEvents(this.#bus, log, events);
      next = last.seq + 1;
      // If reading the next page fails, the next load continues here.
      this.#told.set(threadId, next);
    }
    this.#told.delete(threadId);
  }

  /** Drops the position, because everything was published. */
  forget({ threadId }: EventLogState): void {
    this.#told.delete(threadId);
  }
}
