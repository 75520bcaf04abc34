import { SvcError } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { Settings } from "../settings/settings.ts";

/** True if the caller holds all required scopes. */
export function hasScopes(principal: Pick<Principal, "scopes" | "scheme">, required: readonly string[]): boolean {
  return missingScopes(principal, required).length === 0;
}

/**
 * Returns the required scopes that the caller lacks, in order. `admin` and `*` grant every scope, and `x:write` grants `x:read`.
 * SVC_AUTH_MODE=none disables the check.
 */
export function missingScopes(
  principal: Pick<Principal, "scopes" | "scheme">,
  required: readonly string[],
): readonly string[] {
  const { scopes, scheme } = principal;
  if (scheme === "none" || required.length === 0 || scopes.includes("*") || scopes.includes("admin")) return [];
  return required.filter((scope) => {
    if (scopes.includes(scope)) return false;
    return !scope.endsWith(":read") || !scopes.includes(`${scope.slice(0, -":read".length)}:write`);
  });
}

/** Refuses with missing_scopes if the caller lacks a required scope. */
export function requireScopes(principal: Principal, required: readonly string[]): void {
  const missing = missingScopes(principal, required);
  if (missing.length > 0) throw missingScopesError(missing);
}

/**
 * Refuses with missing_scopes if the caller may not chat. A chat route requires any scope at all. With SVC_CHAT_SCOPES=strict,
 * reading requires chat:read and everything else chat:write.
 */
export function requireChat(principal: Principal, chatScopes: Settings["chatScopes"], access: "read" | "write"): void {
  if (principal.scheme === "none") return;
  if (principal.scopes.length === 0) throw missingScopesError(["chat"]);
  if (chatScopes === "strict") requireScopes(principal, [`chat:${access}`]);
}

function missingScopesError(missing: readonly string[]): SvcError {
  return new SvcError("missing_scopes", { detail: `missing scopes: ${missing.join(" ")}` });
}
