import { type ErrorCode, SvcError } from "../../bus/errors.ts";

/** The codes of refused sign-ins. */
export const signInCodes: ReadonlySet<string> = new Set<ErrorCode>([
  "authorization_pending",
  "slow_down",
  "expired_token",
  "invalid_device_code",
  "access_denied",
  "not_a_member",
  "org_access_restricted",
  "tenant_not_granted",
  "not_invited",
  "tenant_ambiguous",
  "rate_limited",
  "github_unavailable",
  "google_unavailable",
  "github_config_error",
  "invalid_id_token",
  "workflow_not_granted",
  "invalid_login",
  "invalid_state",
  "return_to_not_allowed",
  "not_configured",
]);

/** What a refused sign-in says beside its code. */
export interface SignInDetails {
  /** Seconds until the next poll. */
  readonly interval?: number;
  readonly tenants?: readonly string[];
  readonly github_login?: string;
}

/** Returns the refusal of a sign-in, whose body is {error, message, interval?, tenants?, github_login?}. */
export function signInRefusal(
  code: ErrorCode,
  detail: SignInDetails = {},
  retryAfterSeconds = detail.interval,
): SvcError {
  return new SvcError(code, { detail, ...(retryAfterSeconds !== undefined && { retryAfterSeconds }) });
}
