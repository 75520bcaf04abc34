import type { Address } from "../bus/address.ts";
import type { ThreadFanOut, ThreadListener } from "./thread-fan-out.ts";

// A client that subscribes to a thread before its run is accepted misses no frame of the run and need not read the backlog. Only the run's
// actor knows if a turn becomes a durable run, so this file remembers which agents made durable runs before.

/** Max agents that are remembered. */
const agentsMax = 1_000;
/** Max characters buffered until the run is accepted, when it has only just begun. */
const heardMax = 64 * 1024;

/** Agents that made durable runs recently: a hint, by tenant and name. */
export class DurableAgents {
  readonly #keys = new Set<string>();

  has(tenantId: string, name: string): boolean {
    return this.#keys.has(`${tenantId}/${name}`);
  }

  /** Records whether a turn of the agent became a durable run. */
  note(tenantId: string, name: string, isDurable: boolean): void {
    const key = `${tenantId}/${name}`;
    this.#keys.delete(key);
    if (!isDurable) return;
    this.#keys.add(key);
    const [oldest] = this.#keys;
    if (this.#keys.size > agentsMax && oldest !== undefined) this.#keys.delete(oldest);
  }
}

/** The frames of a run from its first event on. */
export interface Heard {
  readonly text: string;
  /** The sequence number of the next event. */
  readonly cursor: number;
}

/** Buffers the frames of a thread until its run is accepted or refused. */
export class EarlyListener implements ThreadListener {
  readonly #fanOut: ThreadFanOut;
  readonly #address: Address<"thread">;
  #text = "";
  #cursor: number | null = null;
  #isWhole = true;

  constructor(fanOut: ThreadFanOut, address: Address<"thread">) {
    this.#fanOut = fanOut;
    this.#address = address;
    fanOut.join(address, this);
  }

  frames(text: string, cursor: number | null): void {
    this.#text += text;
    this.#cursor = cursor ?? this.#cursor;
    if (this.#text.length > heardMax) this.#drop();
  }

  /** A no-op: this listener never asks for a position. */
  forget(): void {}

  rewound(): void {
    this.#drop();
  }

  lost(): void {
    this.#drop();
  }

  #drop(): void {
    this.#isWhole = false;
    this.#text = "";
  }

  /** Returns the frames from this event on; null if the event was not received or frames after it were dropped. */
  from(seq: number): Heard | null {
    if (!this.#isWhole || this.#cursor === null) return null;
    // Frames hold JSON, so text inside them cannot start a line.
    const id = `id: ${seq + 1}\n`;
    const at = this.#text.startsWith(id) ? 0 : this.#text.indexOf(`\n${id}`) + 1;
    if (at === 0 && !this.#text.startsWith(id)) return null;
    return { text: this.#text.slice(at), cursor: this.#cursor };
  }

  /** Unsubscribes. */
  leave(): void {
    this.#fanOut.leave(this.#address, this);
  }
}
