import type { Bus } from "../../bus/bus.ts";
import { readEvents } from "../../storage/tables/events.ts";
import type { EventLogState } from "./log-state.ts";
import { publishEvents } from "./log-writer.ts";

/** Beyond them the oldest is forgotten: its listeners miss events until they come back. */
const logsMax = 10_000;

/**
 * Where those stand who listen to conversations whose state was dropped. A batch may have been written though its writer was told that it was
 * not, as when the answer of a database is lost; its events are in the log, and nobody was told of them.
 */
export class UnpublishedEvents {
  readonly #bus: Bus;
  /** Events below it were told, by thread, the oldest first. */
  readonly #told = new Map<string, number>();

  constructor(bus: Bus) {
    this.#bus = bus;
  }

  /** The state of a conversation is dropped, or what is written next may not be answered. */
  note({ threadId, topic, committedSeq }: EventLogState): void {
    if (!this.#bus.hasSubscribers(topic)) return;
    this.#told.set(threadId, committedSeq);
    if (this.#told.size > logsMax) this.#told.delete(this.#told.keys().next().value as string);
  }

  /** Tells listeners what the log of a conversation, which was just loaded, has beyond what they were told. */
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
      // A page that cannot be read leaves the place to the next time.
      this.#told.set(threadId, next);
    }
    this.#told.delete(threadId);
  }

  /** Listeners were told of all that was written. */
  forget({ threadId }: EventLogState): void {
    this.#told.delete(threadId);
  }
}
