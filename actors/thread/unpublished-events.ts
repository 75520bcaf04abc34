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
  readonly #published = new Map<string, number>();

  constructor(bus: Bus) {
    this.#bus = bus;
  }

  /** Records the published position before a state is dropped, or before a write that may stay unconfirmed. */
  note({ threadId, topic, committedSeq }: EventLogState): void {
    if (!this.#bus.hasSubscribers(topic)) return;
    this.#published.set(threadId, committedSeq);
    if (this.#published.size > logsMax) this.#published.delete(this.#published.keys().next().value as string);
  }

  /** Publishes the events of a loaded thread that subscribers have not received. */
  async tell(log: EventLogState): Promise<void> {
    const { threadId, head, store } = log;
    const published = this.#published.get(threadId);
    if (published === undefined) return;
    for (let next = published; head !== null && next < head.next_seq; ) {
      const events = await readEvents(store, head.thread_key, next, head.next_seq);
      const last = events.at(-1);
      if (last === undefined) break;
      publishEvents(this.#bus, log, events);
      next = last.seq + 1;
      // If reading the next page fails, the next load continues here.
      this.#published.set(threadId, next);
    }
    this.#published.delete(threadId);
  }

  /** Drops the position, because everything was published. */
  forget({ threadId }: EventLogState): void {
    this.#published.delete(threadId);
  }
}
