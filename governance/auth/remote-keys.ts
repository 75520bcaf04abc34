import type { LocalJWKSet } from "jose";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { Outgoing } from "../egress/outgoing.ts";
import { readPublicJwks } from "../settings/jwks.ts";
import { ProviderClient } from "../sign-in/provider-client.ts";

const timeoutSeconds = 5;
/** Age at which the keys are read again while they stay in use, and the age at which they are no longer used. */
const freshMs = 300_000;
const keptMs = 600_000;
/** Time between two reads for a token with an unknown key, and after a failed read. */
const againMs = 30_000;
const keysMax = 64;

/** The keys of an issuer. */
export interface IssuerKeys {
  readonly keys: LocalJWKSet;
  /** When they were asked for, on the monotonic clock. */
  readonly at: number;
  /** When they are no longer used, on the monotonic clock. */
  readonly until: number;
}

/**
 * The public keys of an issuer, read from its JWKS. Only one read is in progress. Refuses with issuer_unavailable while there are no
 * usable keys; after a failure, at once for 30 seconds. Redirects, answers above 1 MiB and sets with a secret key are failures.
 */
export class RemoteKeys {
  readonly #client: ProviderClient;
  readonly #env: Pick<Env, "monotonic">;
  readonly #url: string;
  #known: IssuerKeys | null = null;
  #reading: Promise<IssuerKeys> | null = null;
  #failedAt = Number.NEGATIVE_INFINITY;

  constructor(outgoing: Pick<Outgoing, "whole">, env: Pick<Env, "monotonic">, url: string) {
    this.#client = new ProviderClient(outgoing, timeoutSeconds, "issuer_unavailable");
    this.#env = env;
    this.#url = url;
  }

  /** Returns the keys; old ones start a read in the background. */
  async current(): Promise<IssuerKeys> {
    const now = this.#env.monotonic();
    const known = this.#known;
    if (known === null || now >= known.until) return this.#read();
    if (now - known.at >= freshMs) this.#read().catch(() => undefined);
    return known;
  }

  /** Returns newer keys than these, because a token names an unknown one; null if it is too early to ask again. */
  async newerThan(keys: IssuerKeys): Promise<IssuerKeys | null> {
    if (this.#known !== null && this.#known.at > keys.at) return this.#known;
    if (this.#env.monotonic() - keys.at < againMs || this.#hasFailed()) return null;
    return this.#read();
  }

  #hasFailed(): boolean {
    return this.#env.monotonic() - this.#failedAt < againMs;
  }

  async #read(): Promise<IssuerKeys> {
    if (this.#hasFailed()) {
      const retryAfterSeconds = Math.ceil((this.#failedAt + againMs - this.#env.monotonic()) / 1_000);
      throw new SvcError("issuer_unavailable", { retryAfterSeconds: Math.max(1, retryAfterSeconds) });
    }
    this.#reading ??= this.#ask().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async #ask(): Promise<IssuerKeys> {
    try {
      const at = this.#env.monotonic();
      const { status, body } = await this.#client.get(this.#url);
      if (status !== 200 || !Array.isArray(body.keys) || body.keys.length > keysMax)
        throw new Error("the answer is not a usable JWKS");
      const { createLocalJWKSet } = await import("jose");
      const keys = createLocalJWKSet({ keys: readPublicJwks(body).keys.map((key) => ({ ...key }) as { kty: string }) });
      this.#known = { keys, at, until: at + keptMs };
      return this.#known;
    } catch {
      this.#failedAt = this.#env.monotonic();
      throw new SvcError("issuer_unavailable", { retryAfterSeconds: againMs / 1_000 });
    }
  }
}
