import type { Env } from "../bus/env.ts";
import { type ErrorCode, SvcError } from "../bus/errors.ts";

/** How long something may take to show that it works, in milliseconds: whoever asks for readiness waits no longer. */
const probeMs = 2_000;

/** What /ready says of one thing that the service needs. */
export interface ProbeResult {
  readonly ok: boolean;
  /** The code of a refusal alone: anybody may read it. */
  readonly detail?: string;
  readonly duration_ms: number;
}

/**
 * Tries one thing that the service needs. Who asks while it is being tried waits for the same try: anybody may ask, as often as
 * they like.
 */
export class Probe {
  readonly #env: Env;
  readonly #check: () => Promise<string | null>;
  #trying: Promise<string | null> | null = null;
  #triedAt = 0;

  /** `check` answers a code when the thing does not do, null when it does, and may throw. */
  constructor(env: Env, check: () => Promise<string | null>) {
    this.#env = env;
    this.#check = check;
  }

  async ask(): Promise<ProbeResult> {
    const startedAt = this.#env.monotonic();
    if (this.#trying === null) {
      this.#triedAt = startedAt;
      this.#trying = this.#check()
        .catch((error: unknown) => SvcError.from(error).code)
        .finally(() => {
          this.#trying = null;
        });
    }
    const leftMs = this.#triedAt + probeMs - startedAt;
    const detail = leftMs > 0 ? await this.#within(leftMs, this.#trying) : late;
    const duration_ms = Math.round((this.#env.monotonic() - startedAt) * 10) / 10;
    return detail === null ? { ok: true, duration_ms } : { ok: false, detail, duration_ms };
  }

  async #within(ms: number, trying: Promise<string | null>): Promise<string | null> {
    const over = Promise.withResolvers<string>();
    const deadline = this.#env.timer(ms, () => over.resolve(late));
    try {
      return await Promise.race([trying, over.promise]);
    } finally {
      deadline.cancel();
    }
  }
}

const late: ErrorCode = "deadline_exceeded";
