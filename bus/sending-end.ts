import type { Env } from "./env.ts";
import type { Link, Slot } from "./link.ts";
import type { Channel } from "./protocol/channel.ts";

/** The sending end of a channel. It exists as long as its run, including waits, and is therefore small. */
export class SendingEnd implements Channel, Slot {
  batch = 0;
  index = 0;
  readonly #link: Link | undefined;
  readonly #id: number;
  readonly #env: Env;
  /** Count of texts that were dropped because the receiver is lost. */
  readonly #dropped: { frame: number };

  constructor(link: Link | undefined, id: number, env: Env, dropped: { frame: number }) {
    this.#link = link;
    this.#id = id;
    this.#env = env;
    this.#dropped = dropped;
  }

  get writable(): boolean {
    return this.#link?.writable ?? true;
  }

  onWritable(work: () => void): void {
    if (this.#link) this.#link.onWritable(work);
    else this.#env.defer(work);
  }

  send(text: string, last: boolean): void {
    if (!this.#link || this.#link.closed) this.#dropped.frame++;
    else this.#link.frame(this, this.#id, text, last);
  }
}
