import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { BodyReader } from "./body-reader.ts";

/** How long a body is given before it is looked at what has come: less than uWebSockets.js waits, which then says nothing. */
export const bodyWindowMs = 6_000;
/** What must have come of it meanwhile: 16 KiB a second. */
export const bodyWindowBytesMin = 96 * 1024;
const lookMs = 1_000;

interface Window {
  since: number;
  bytes: number;
}

/** The bodies that somebody waits for. Those that come too slowly fail with request_timeout. */
export class SlowBodies {
  readonly #env: Env;
  readonly #windows = new Map<BodyReader, Window>();
  #looking = false;

  constructor(env: Env) {
    this.#env = env;
  }

  watch(body: BodyReader): void {
    this.#windows.set(body, { since: this.#env.monotonic(), bytes: body.bytes });
    if (!this.#looking) this.#lookLater();
  }

  forget(body: BodyReader): void {
    this.#windows.delete(body);
  }

  #lookLater(): void {
    this.#looking = true;
    this.#env.timer(lookMs, () => {
      this.#looking = false;
      this.#look();
      if (this.#windows.size > 0) this.#lookLater();
    });
  }

  #look(): void {
    const now = this.#env.monotonic();
    for (const [body, window] of this.#windows) {
      if (now - window.since < bodyWindowMs) continue;
      if (body.bytes - window.bytes < bodyWindowBytesMin) {
        this.#windows.delete(body);
        body.fail(new SvcError("request_timeout"));
      } else {
        window.since = now;
        window.bytes = body.bytes;
      }
    }
  }
}
