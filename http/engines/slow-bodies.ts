import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { SlotSet } from "../../bus/slot-map.ts";
import type { BodyReader } from "./body-reader.ts";

/**
 * Length of the window in which a body must make progress. It is shorter than the timeout of uWebSockets.js, which closes without an
 * answer.
 */
export const bodyWindowMs = 6_000;
/** Min bytes of a body in one window: 16 KiB a second. */
export const bodyWindowBytesMin = 96 * 1024;
const lookMs = 1_000;

/** Bodies that handlers wait for. A body below the minimum rate fails with request_timeout. */
export class SlowBodies {
  readonly #env: Env;
  readonly #watched = new SlotSet<BodyReader>();
  #looking = false;

  constructor(env: Env) {
    this.#env = env;
  }

  watch(body: BodyReader): void {
    body.watchedSince = this.#env.monotonic();
    body.watchedBytes = body.bytes;
    this.#watched.add(body);
    if (!this.#looking) this.#lookLater();
  }

  forget(body: BodyReader): void {
    this.#watched.delete(body);
  }

  #lookLater(): void {
    this.#looking = true;
    this.#env.timer(lookMs, () => {
      this.#looking = false;
      this.#look();
      if (this.#watched.size > 0) this.#lookLater();
    });
  }

  #look(): void {
    const now = this.#env.monotonic();
    for (const body of this.#watched) {
      if (now - body.watchedSince < bodyWindowMs) continue;
      if (body.bytes - body.watchedBytes < bodyWindowBytesMin) {
        this.#watched.delete(body);
        body.fail(new SvcError("request_timeout"));
      } else {
        body.watchedSince = now;
        body.watchedBytes = body.bytes;
      }
    }
  }
}
