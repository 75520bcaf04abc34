import { SvcError } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { Settings } from "../settings/settings.ts";

// Callers without credentials (decision 78). Without SVC_ANONYMOUS_TENANT there are none. A thread's id is all that tells one of them
// from another, so it must be one that nobody guesses.

const threadPattern = /^anon-[0-9a-f]{32}$/i;

/** Who a request without credentials comes from; null where such a request is refused. */
export function anonymousPrincipal({ anonymousTenant }: Pick<Settings, "anonymousTenant">): Principal | null {
  if (anonymousTenant === "") return null;
  return { tenant_id: anonymousTenant, sub: "anonymous", scopes: [], scheme: "anonymous", issuer: "" };
}

/** Whether a caller has shown no credentials. */
export function isAnonymous({ scheme }: Pick<Principal, "scheme">): boolean {
  return scheme === "anonymous";
}

/**
 * Holds a turn of a caller without credentials to what such a one may ask for; others may ask for more. Refuses with
 * invalid_thread_id and invalid_idempotency_key.
 */
export function admitAnonymousTurn(
  principal: Principal,
  suffix: string | null,
  idempotencyKey: string | undefined,
): void {
  if (!isAnonymous(principal)) return;
  if (suffix !== null && !threadPattern.test(suffix)) throw new SvcError("invalid_thread_id");
  // A key is remembered for a principal, and all of them are one.
  if (idempotencyKey !== undefined) throw new SvcError("invalid_idempotency_key");
}
