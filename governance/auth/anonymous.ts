import { SvcError } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { Settings } from "../settings/settings.ts";

// Callers without credentials (decision 78: SVC_ANONYMOUS_TENANT admits them to one tenant). All of them share one principal, so
// a thread's id is the only secret. It must be unguessable: 128 random bits.

const sharedSubject = "anonymous";
const threadPattern = /^anon-[0-9a-f]{32}$/i;

/** Returns the principal of a request without credentials; null if SVC_ANONYMOUS_TENANT is unset. */
export function anonymousPrincipal({ anonymousTenant }: Pick<Settings, "anonymousTenant">): Principal | null {
  if (anonymousTenant === "") return null;
  return { tenant_id: anonymousTenant, sub: sharedSubject, scopes: [], scheme: "anonymous", issuer: "" };
}

/** True if the caller showed no credentials. */
export function isAnonymous({ scheme }: Pick<Principal, "scheme">): boolean {
  return scheme === "anonymous";
}

/**
 * Checks a turn of an anonymous caller: the thread id must be unguessable, and an idempotency key is not allowed. Refuses with
 * invalid_thread_id or invalid_idempotency_key.
 */
export function admitAnonymousTurn(
  principal: Principal,
  suffix: string | null,
  idempotencyKey: string | undefined,
): void {
  // A plugin gives its callers principals of their own, and checks their threads itself.
  if (!isAnonymous(principal) || principal.sub !== sharedSubject) return;
  if (suffix !== null && !threadPattern.test(suffix)) throw new SvcError("invalid_thread_id");
  // Idempotency keys are stored for each principal, and all anonymous callers share one.
  if (idempotencyKey !== undefined) throw new SvcError("invalid_idempotency_key");
}
