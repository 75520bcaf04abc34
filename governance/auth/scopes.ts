import { SvcError } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { Settings } from "../settings/settings.ts";

/** Whether the caller holds all of them. */
export function hasScopes(principal: Principal, required: readonly string[]): boolean {
  return missingScopes(principal, required).length === 0;
}

/**
 * The scopes of `required` that the caller lacks, in their order. `admin` and `*` stand for every scope, `x:write` for `x:read`.
 * With SVC_AUTH_MODE=none nothing is checked.
 */
export function missingScopes(principal: Principal, required: readonly string[]): readonly string[] {
  const { scopes, scheme } = principal;
  if (scheme === "none" || required.length === 0 || scopes.includes("*") || scopes.includes("admin")) return [];
  return required.filter((scope) => {
    if (scopes.includes(scope)) return false;
    return !scope.endsWith(":read") || !scopes.includes(`${scope.slice(0, -":read".length)}:write`);
  });
}

/** Refuses with missing_scopes when the caller lacks one of them. */
export function requireScopes(principal: Principal, required: readonly string[]): void {
  const missing = missingScopes(principal, required);
  if (missing.length > 0) throw missingScopesError(missing);
}

/**
 * Refuses with missing_scopes a caller who may not chat: a chat route needs any scope at all, and with SVC_CHAT_SCOPES=strict
 * chat:read for reading and chat:write for the rest.
 */
export function requireChat(principal: Principal, chatScopes: Settings["chatScopes"], access: "read" | "write"): void {
  if (principal.scheme === "none") return;
  if (principal.scopes.length === 0) throw missingScopesError(["chat"]);
  if (chatScopes === "strict") requireScopes(principal, [`chat:${access}`]);
}

function missingScopesError(missing: readonly string[]): SvcError {
  return new SvcError("missing_scopes", { detail: `missing scopes: ${missing.join(" ")}` });
}
