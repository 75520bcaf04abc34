import type { FailureCode } from "../../bus/frames/output.ts";
import type { ModelFailure } from "./provider.ts";

/** The code of the OpenAI protocol for a failed model call (decision 212). */
export function failureCodeOf({ status, overflow, filtered, unsendable }: ModelFailure): FailureCode {
  if (overflow) return "context_length_exceeded";
  if (filtered) return "content_filter";
  if (status === 429) return "rate_limit_exceeded";
  if (status === 401 || status === 403 || unsendable) return "provider_auth";
  return "model_unavailable";
}
