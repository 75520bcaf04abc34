import type { Principal } from "../../bus/protocol/principal.ts";
import type { AccessDeps } from "./held-scopes.ts";
import { isRevoked } from "./revoked.ts";
import type { StoredAccess } from "./stored-access.ts";

/** The stored keys and sign-ins with their reader. */
export interface FreshDeps extends AccessDeps {
  readonly access: Pick<StoredAccess, "keysOf" | "signInOf" | "isRead">;
  /** Reads them again. */
  readAccess(): Promise<void>;
}

/**
 * Reads the stored keys and sign-ins again if a principal seems to have lost access, because another thread may have stored them a moment
 * ago. Rejects if the store does not answer.
 */
export async function refreshAccess(principal: Principal, deps: FreshDeps, now: number): Promise<void> {
  if (!deps.access.isRead || isRevoked(principal, deps, now)) await deps.readAccess();
}
