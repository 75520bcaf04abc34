import { SvcError } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import { requireScopes } from "./scopes.ts";

/** Schemes whose callers hold a JWT: a manifest that says `jwt` admits all of them. */
const jwtSchemes: ReadonlySet<string> = new Set(["jwt", "github", "github_actions", "google"]);

/**
 * Admits a caller to a manifest by its spec.auth.inbound, or refuses: callers without credentials with unauthorized unless the
 * manifest allows them, then callers of another scheme with auth_scheme_not_allowed, then those without a required scope with
 * missing_scopes. A manifest that names schemes and also wants callers without credentials names `anonymous` among them.
 */
export function admit(principal: Principal, inbound: CompiledAgent["inbound"]): void {
  const { scheme } = principal;
  // With SVC_AUTH_MODE=none nothing is checked.
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
