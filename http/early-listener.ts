import type { Address } from "../bus/address.ts";
import type { ThreadFanOut, ThreadListener } from "./thread-fan-out.ts";

// Who listens to a conversation before a run of it is accepted has missed nothing of the run, and need not read what it has said
// already. Whether a turn will be a durable run is known by its actor alone; that an agent has made such runs is remembered here.

/** Agents that are remembered. */
const agentsMax = 1_000;
/** Characters that are kept until the run is accepted: it has hardly begun then. */
const heardMax = 64 * 1024;

/** Which agents have made durable runs of late: a hint, by tenant and name. */
export class DurableAgents {
  readonly #keys = new Set<string>();

  has(tenantId: string, name: string): boolean {
    return this.#keys.has(`${tenantId}/${name}`);
  }

  /** Remembers how a turn of the agent was taken. */
  note(tenantId: string, name: string, isDurable: boolean): void {
    const key = `${tenantId}/${name}`;
    this.#keys.delete(key);
    if (!isDurable) return;
    this.#keys.add(key);
    const [oldest] = this.#keys;
    if (this.#keys.size > agentsMax && oldest !== undefined) this.#keys.delete(oldest);
  }
}

/** What was heard of a run from its first event on. */
export interface Heard {
  readonly text: string;
  /** The sequence number of the next event. */
  readonly cursor: number;
}

/** Keeps what a conversation says until the run is accepted, or was refused. */
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

  /** It never asks for a position. */
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

  /** What was heard from this event on; null where that is not all, or the event itself was not heard. */
  from(seq: number): Heard | null {
    if (!this.#isWhole || this.#cursor === null) return null;
    // Frames hold JSON, so no text in them can begin a line.
    const id = `id: ${seq + 1}\n`;
    const at = this.#text.startsWith(id) ? 0 : this.#text.indexOf(`\n${id}`) + 1;
    if (at === 0 && !this.#text.startsWith(id)) return null;
    return { text: this.#text.slice(at), cursor: this.#cursor };
  }

  /** Listens no more. */
  leave(): void {
    this.#fanOut.leave(this.#address, this);
  }
}
