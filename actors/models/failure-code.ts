import type { FailureCode } from "../../bus/frames/output.ts";
import type { ModelFailure } from "./provider.ts";

/** Returns the OpenAI error code of a failed model call (decision 212: the HTTP status stays 502, the code names the kind). */
export function failureCodeOf({ status, overflow, filtered, unsendable }: ModelFailure): FailureCode {
  if (overflow) return "context_length_exceeded";
  if (filtered) return "content_filter";
  if (status === 429) return "rate_limit_exceeded";
  if (status === 401 || status === 403 || unsendable) return "provider_auth";
  return "model_unavailable";
}
