import type { Env } from "../bus/env.ts";
import { type ErrorCode, SvcError } from "../bus/errors.ts";

/** Max milliseconds of a check, and so of a readiness request. */
const probeMs = 2_000;

/** The state of one dependency in the answer of /ready. */
export interface ProbeResult {
  readonly ok: boolean;
  /** Only the code of an error, because the answer is public. */
  readonly detail?: string;
  readonly duration_ms: number;
}

/** Checks one dependency. Requests during a check share its result, because /ready is public and may be called at any rate. */
export class Probe {
  readonly #env: Env;
  readonly #check: () => Promise<string | null>;
  #trying: Promise<string | null> | null = null;
  #triedAt = 0;

  /** `check` resolves to null if the dependency works, or to an error code, and may reject. */
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
