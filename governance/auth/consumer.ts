import { createHash, timingSafeEqual } from "node:crypto";
import { SvcError } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { Settings } from "../settings/settings.ts";

/** Tenant of a consumer that may answer queue tasks of every tenant. `*` is not a valid tenant id. */
export const anyTenant = "*";

type ConsumerSettings = Pick<Settings, "consumerSharedSecret" | "consumerTenant" | "authMode" | "environment">;

/**
 * Returns the principal of a queue consumer: the tenant whose secret it sent. Refuses with unauthorized for a wrong secret.
 * Refuses with consumer_shared_secret_required if no secret is configured, except in mode none outside production. Secrets are
 * compared in constant time.
 */
export function consumerOf(settings: ConsumerSettings, shown: string | undefined): Principal {
  return { tenant_id: tenantOf(settings, shown), sub: "consumer", scopes: [], scheme: "consumer", issuer: "" };
}

function tenantOf(settings: ConsumerSettings, shown: string | undefined): string {
  const { consumerSharedSecret: secrets, consumerTenant: tenant, authMode, environment } = settings;
  if (secrets === "") {
    if (authMode === "none" && environment !== "production") return tenant;
    throw new SvcError("consumer_shared_secret_required");
  }
  const known: readonly (readonly [string, string])[] =
    typeof secrets === "string" ? [[tenant, secrets]] : Object.entries(secrets);
  const given = digest(shown ?? "");
  let found: string | null = null;
  // Compare with every secret, so that the response time does not depend on which one matches.
  for (const [of, secret] of known) if (timingSafeEqual(digest(secret), given)) found = of;
  if (found === null) throw new SvcError("unauthorized", { reason: "invalid_consumer_secret" });
  return found;
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
