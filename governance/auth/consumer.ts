import { createHash, timingSafeEqual } from "node:crypto";
import { SvcError } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { Settings } from "../settings/settings.ts";

/** The tenant of a consumer that may answer the sessions of every one. No tenant is called so. */
export const anyTenant = "*";

type ConsumerSettings = Pick<Settings, "consumerSharedSecret" | "consumerTenant" | "authMode" | "environment">;

/**
 * The consumer of queues that shows a secret, of the tenant whose secret it is. Refuses with consumer_shared_secret_required where there is none to
 * show, unless nobody has to show anything here, and with unauthorized. How long it takes says nothing of the secrets.
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
  // All of them are looked at, so that the time does not tell which one was near.
  for (const [of, secret] of known) if (timingSafeEqual(digest(secret), given)) found = of;
  if (found === null) throw new SvcError("unauthorized", { reason: "invalid_consumer_secret" });
  return found;
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
