import type { Env } from "../../../bus/env.ts";

/** How long nobody is told again that a frame is in use: much less than it stays without being used. */
const knownMs = 30 * 60_000;
/** Frames of which a thread knows that they are kept. */
const knownMax = 10_000;

/** Of which frames this thread knows that they are in the store, so that they are seldom written again. */
export class KnownPrefixes {
  readonly #env: Env;
  /** When each was written last. */
  readonly #known = new Map<string, number>();

  constructor(env: Env) {
    this.#env = env;
  }

  has(tenantId: string, digest: string): boolean {
    const at = this.#known.get(keyOf(tenantId, digest));
    return at !== undefined && this.#env.monotonic() - at < knownMs;
  }

  /** A frame of a tenant is durable. */
  add(tenantId: string, digest: string): void {
    const key = keyOf(tenantId, digest);
    this.#known.delete(key);
    this.#known.set(key, this.#env.monotonic());
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= knownMax) break;
      this.#known.delete(oldest);
    }
  }
}

function keyOf(tenantId: string, digest: string): string {
  return `${tenantId} ${digest}`;
}
