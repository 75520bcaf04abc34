import { SvcError } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import { verifierSchemes } from "../settings/jwt-verifiers.ts";
import { requireScopes } from "./scopes.ts";

/** Schemes whose callers present a JWT. A manifest that lists `jwt` admits all of them. */
const jwtSchemes: ReadonlySet<string> = new Set(["jwt", "github", "github_actions", "google", ...verifierSchemes]);

/** Returns the scheme of the caller; for a run of an evaluation, that of the person who asked for it. */
function schemeOf({ scheme, on_behalf_of }: Principal): string {
  return scheme === "eval" ? (on_behalf_of?.scheme ?? scheme) : scheme;
}

/**
 * Checks a caller against spec.auth.inbound of a manifest. Refuses with unauthorized, auth_scheme_not_allowed or missing_scopes,
 * checked in this order. A manifest that lists schemes must list `anonymous` to admit callers without credentials.
 */
export function admit(principal: Principal, inbound: CompiledAgent["inbound"]): void {
  const scheme = schemeOf(principal);
  // SVC_AUTH_MODE=none disables the check.
  if (scheme === "none") return;
  if (scheme === "anonymous" && !inbound.allow_anonymous) {
    throw new SvcError("unauthorized", { reason: "missing_credentials" });
  }
  const { schemes } = inbound;
  const admitted =
    schemes.length === 0 || schemes.includes(scheme) || (jwtSchemes.has(scheme) && schemes.includes("jwt"));
  if (!admitted) throw new SvcError("auth_scheme_not_allowed");
  requireScopes(principal, inbound.required_scopes);
}
