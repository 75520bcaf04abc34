import type { SvcError } from "../../bus/errors.ts";
import { type JsonReply, jsonText, refusal, refusalHeaders } from "../exchange/reply.ts";

// Errors of JSON-RPC, by which MCP reports what went wrong (shapes 7.3).

/** An error object of JSON-RPC. */
export interface RpcError {
  readonly code: number;
  readonly message: string;
  /** svc's own code of the refusal. */
  readonly data: { readonly code: string };
}

/** Codes other than -32000. A refused credential or scope of the manifest is -32001. */
const codes: Readonly<Partial<Record<string, number>>> = {
  invalid_json: -32700,
  invalid_request: -32600,
  unknown_tool: -32602,
  blocked_by_hook: -32602,
  content_screening_denied: -32602,
  content_screening_oversize: -32602,
  invalid_thread_id: -32602,
  unauthorized: -32001,
  auth_scheme_not_allowed: -32001,
  missing_scopes: -32001,
  internal_error: -32603,
};

/** Returns a refusal as an error of JSON-RPC. */
export function rpcErrorOf(error: SvcError, requestId: string): RpcError {
  const { code, sentence } = error;
  const message =
    code === "internal_error"
      ? `internal error (request ${requestId})`
      : sentence === null
        ? error.message
        : `${error.message}: ${sentence}`;
  return { code: codes[code] ?? -32000, message, data: { code } };
}

/** Returns the answer to a request that no message of JSON-RPC could be read from. */
export function rpcRefusal(error: SvcError, requestId: string): JsonReply {
  // The specification prints the body of this refusal.
  if (error.code === "payload_too_large") return refusal(error, requestId);
  const status = error.code === "invalid_request" ? 400 : error.status;
  const body = { jsonrpc: "2.0", error: rpcErrorOf(error, requestId), id: null };
  return jsonText(JSON.stringify(body), status, refusalHeaders(error));
}
