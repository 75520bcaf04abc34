import type { JWTPayload } from "jose";
import type { Env } from "../../bus/env.ts";
import type { ErrorCode } from "../../bus/errors.ts";
import type { ProviderClient } from "./provider-client.ts";
import { signInRefusal } from "./refusal.ts";

const leewaySeconds = 60;
/** Time for which the keys of an issuer are kept, and the time before a token with an unknown key reads them again. */
const keptMs = 600_000;
const againMs = 30_000;
/** Time after a failed read of the keys in which they are not read again. */
const failedMs = 5_000;

/** Rules of 3.1.3.7 that a verified token must follow too: it is for no other client, and was not issued in the future. */
function isForUs({ aud, azp, iat = 0 }: JWTPayload, audience: string, now: number): boolean {
  if (Array.isArray(aud) && aud.length !== 1 && azp !== audience) return false;
  return (azp === undefined || azp === audience) && iat * 1_000 <= now + leewaySeconds * 1_000;
}

interface KnownKeys {
  readonly keys: { readonly kty: string }[];
  readonly at: number;
}

/** Verifies id tokens of one issuer (OpenID Connect Core 1.0, 3.1.3.7). */
export class IdTokens {
  readonly #client: ProviderClient;
  readonly #env: Pick<Env, "now" | "monotonic">;
  readonly #jwksUrl: () => Promise<string>;
  readonly #unavailable: ErrorCode;
  #known: KnownKeys | null = null;
  /** The read in progress, which all callers share. */
  #reading: Promise<KnownKeys> | null = null;
  #failedAt = Number.NEGATIVE_INFINITY;

  constructor(
    client: ProviderClient,
    env: Pick<Env, "now" | "monotonic">,
    { jwksUrl, unavailable }: { jwksUrl: () => Promise<string>; unavailable: ErrorCode },
  ) {
    this.#client = client;
    this.#env = env;
    this.#jwksUrl = jwksUrl;
    this.#unavailable = unavailable;
  }

  /** Returns the claims of a token; null if it is not valid. Refuses with the code of an unavailable provider. */
  async verify(token: string, issuers: string[], audience: string): Promise<JWTPayload | null> {
    const { createLocalJWKSet, decodeProtectedHeader, jwtVerify, errors } = await import("jose");
    try {
      decodeProtectedHeader(token);
    } catch {
      return null;
    }
    for (const maxAgeMs of [keptMs, againMs]) {
      const known = await this.#keys(maxAgeMs);
      try {
        const { payload } = await jwtVerify(token, createLocalJWKSet({ keys: known.keys }), {
          ...{ algorithms: ["RS256", "ES256"], issuer: issuers, audience, clockTolerance: leewaySeconds },
          ...{ currentDate: new Date(this.#env.now()), requiredClaims: ["exp", "iat", "sub"] },
        });
        return isForUs(payload, audience, this.#env.now()) ? payload : null;
      } catch (error) {
        // The issuer may have begun to sign with a key that is not known here.
        if (!(error instanceof errors.JWKSNoMatchingKey)) return null;
      }
    }
    return null;
  }

  async #keys(maxAgeMs: number): Promise<KnownKeys> {
    if (this.#known !== null && this.#env.now() - this.#known.at < maxAgeMs) return this.#known;
    if (this.#env.monotonic() - this.#failedAt < failedMs) throw signInRefusal(this.#unavailable);
    this.#reading ??= this.#read().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async #read(): Promise<KnownKeys> {
    try {
      const at = this.#env.now();
      const { status, body } = await this.#client.get(await this.#jwksUrl());
      if (status !== 200 || !Array.isArray(body.keys)) throw signInRefusal(this.#unavailable);
      this.#known = { keys: body.keys as { kty: string }[], at };
      return this.#known;
    } catch (error) {
      this.#failedAt = this.#env.monotonic();
      throw error;
    }
  }
}
