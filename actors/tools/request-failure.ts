import { egressFailure } from "../../governance/egress/failure.ts";
import { type ToolErrorCode, type ToolResult, toolError } from "./tool.ts";

/** Returns the result for the model of a request without an answer. It does not repeat addresses that were resolved. */
export function requestFailure(error: unknown, timeoutMs: number): ToolResult {
  switch (egressFailure(error)) {
    case "blocked":
      return toolError("permission_denied", "egress_blocked: destination not permitted");
    case "silent_head":
    case "silent_body":
      return toolError("timeout", `no complete answer within ${timeoutMs} ms`);
    case "malformed":
      return toolError("provider_error", (error as Error).message);
    case "unsendable":
      return toolError("invalid_arguments", (error as Error).message);
    default:
      return toolError("transport_unavailable", `the request failed: ${reasonOf(error)}`);
  }
}

/** Returns the class of failure for a status of 400 and above. */
export function errorOfStatus(status: number): ToolErrorCode {
  if (status === 401 || status === 403) return "permission_denied";
  if (status === 404 || status === 410) return "not_found";
  if (status === 408 || status === 504) return "timeout";
  return status === 429 ? "rate_limited" : "provider_error";
}

function reasonOf(error: unknown): string {
  const { code, message } = error as { readonly code?: unknown; readonly message?: unknown };
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") return "the host name is not known";
  if (typeof code === "string" && /^[A-Z_]{3,40}$/.test(code)) return code;
  return typeof message === "string" && error instanceof Error && error.name === "EgressError"
    ? message
    : "no connection";
}
