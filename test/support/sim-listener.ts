import assert from "node:assert/strict";
import type { Address } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { LogEvent } from "../../storage/tables/events.ts";
import { FrameReader } from "./sse-frames.ts";

/**
 * A listener to a thread from a cursor, like a reattached stream: it joins first, then asks for the head of the log.
 */
export class SimListener {
  /** Resolves when the end of the backlog is known. */
  readonly attached: Promise<void>;
  readonly #bus: Bus;
  readonly #address: Address<"thread">;
  readonly #cursor: number;
  readonly #reader = new FrameReader();
  readonly #heard: number[] = [];
  /** The backlog ends before this event; null when the thread could not answer. */
  #from: number | null = null;

  constructor(bus: Bus, address: Address<"thread">, cursor: number) {
    this.#bus = bus;
    this.#address = address;
    this.#cursor = cursor;
    bus.subscribe(address, (text) => {
      for (const { name, id } of this.#reader.push(text))
        if (name === "session_event") this.#heard.push(Number(id) - 1);
    });
    this.attached = bus.ask(address, "attach", {}).then(
      ({ next_seq }) => {
        this.#from = next_seq;
      },
      () => {},
    );
  }

  stop(): void {
    this.#bus.unsubscribe(this.#address);
  }

  /**
   * Backlog and live events together are the log from the cursor on, each event once and in order; at rest, up to its
   * end.
   */
  check(events: readonly LogEvent[], atRest: boolean): void {
    const from = this.#from;
    if (from === null) return;
    const past = events.filter(({ seq }) => seq >= this.#cursor && seq < from).map(({ seq }) => seq);
    const told = [...past, ...this.#heard.filter((seq) => seq >= Math.max(from, this.#cursor))];
    const all = events.filter(({ seq }) => seq >= this.#cursor).map(({ seq }) => seq);
    assert.deepEqual(told, all.slice(0, told.length), `heard ${this.#heard} behind ${from}`);
    assert.ok(!atRest || told.length === all.length, `${all.length - told.length} events were not heard`);
  }
}
